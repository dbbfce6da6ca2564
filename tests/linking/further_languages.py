"""Small wikis in further languages, with sentences whose names are marked by their spans."""

WIKIS = {
    "ka": {
        "თბილისი": "[[თბილისი]] დედაქალაქია. [[ბათუმი]] ზღვასთან არის.",
        "ბათუმი": "[[ბათუმი]] ქალაქია. [[თბილისი|თბილისში]] მატარებელი მიდის. თელავი არ ჩანს.",
        "ქუთაისი": "[[ქუთაისი]] ქალაქია. [[თბილისი]] შორსაა. [[ბათუმი|ბათუმში]] თბილა. თელავი.",
        "მტკვარი": "[[მტკვარი]] მდინარეა. [[თბილისი]] მის ნაპირზეა. თელავი შორსაა.",
        "თელავი": "[[თელავი]] ქალაქია. [[ქუთაისი]] შორს არის. [[მტკვარი]] ახლოს.",
    },
    "pl": {
        "Kraków": "[[Kraków]] to miasto. W [[Warszawa|Warszawie]] jest rzeka [[Wisła]].",
        "Warszawa": "[[Warszawa]] jest stolicą. "
        "Leży nad rzeką [[Wisła]]. Do [[Kraków|Krakowa]] jest daleko.",
        "Wisła": "[[Wisła]] jest rzeką. Płynie przez [[Kraków]] i [[Gdańsk]].",
        "Gdańsk": "[[Gdańsk]] leży nad morzem. "
        "Z [[Warszawa|Warszawy]] jest daleko. [[Łódź]] jest bliżej.",
        "Łódź": "[[Łódź]] to miasto. Stąd do [[Gdańsk|Gdańska]] daleko.",
    },
    "hu": {
        "Budapest": "[[Budapest]] főváros. A [[Duna]] átfolyik rajta.",
        "Duna": "A [[Duna]] folyó. [[Budapest]]en át folyik. [[Pécs]] nincs mellette.",
        "Szeged": "[[Szeged]] város. [[Szeged]]en folyik a [[Tisza]].",
        "Tisza": "A [[Tisza]] folyó. [[Szeged]] mellett folyik.",
        "Pécs": "[[Pécs]] város. [[Budapest]] messze van. [[Barcelona]] még messzebb.",
    },
    "el": {
        "Αθήνα": "Η [[Αθήνα]] είναι πρωτεύουσα. Η [[Πάτρα]] είναι μακριά.",
        "Πάτρα": "Η [[Πάτρα]] είναι πόλη. Ο [[Όλυμπος]] είναι βουνό. Η [[Αθήνα]] είναι μεγάλη.",
        "Όλυμπος": "Ο [[Όλυμπος]] είναι βουνό. Ο δρόμος του [[Όλυμπος|Ολύμπου]].",
        "Βόλος": "Ο [[Βόλος]] είναι πόλη. Στην [[Αθήνα]] πάει τρένο. Η [[Πάτρα]] όχι.",
        "Πειραιάς": "Ο [[Πειραιάς]] είναι λιμάνι. Κοντά είναι η [[Αθήνα]]. Ο [[Βόλος]] όχι.",
    },
    "bn": {
        "ঢাকা": "[[ঢাকা]] একটি শহর। [[পদ্মা]] একটি নদী।",
        "পদ্মা": "[[পদ্মা]] নদী। [[ঢাকা]]র কাছে বয়ে যায়।",
        "চট্টগ্রাম": "[[চট্টগ্রাম]] একটি বন্দর। [[ঢাকা]] থেকে দূরে।",
        "গোপালগঞ্জ": "[[গোপালগঞ্জ]] একটি শহর।",
        "খুলনা": "[[খুলনা]] একটি শহর। [[চট্টগ্রাম]] দূরে। [[খুলনা]]র নদী।",
    },
    "ta": {
        "சென்னை": "[[சென்னை]] ஒரு நகரம். [[மதுரை]] தொலைவில் உள்ளது.",
        "மதுரை": "[[மதுரை]] ஒரு நகரம். [[வைகை]] ஆறு ஓடுகிறது. [[சென்னை|சென்னையில்]] கடல் உள்ளது.",
        "கொச்சி": "[[கொச்சி]] ஒரு நகரம்.",
        "வைகை": "[[வைகை]] ஒரு ஆறு. [[மதுரை|மதுரையில்]] ஓடுகிறது.",
        "கோவை": "[[கோவை]] ஒரு நகரம். [[சென்னை]] தொலைவில் உள்ளது. [[திருச்சி]] அருகில்.",
    },
    "vi": {
        "Hà Nội": "[[Hà Nội]] là thủ đô. [[Đà Nẵng]] ở xa.",
        "Đà Nẵng": "[[Đà Nẵng]] là thành phố. [[Huế]] ở gần. [[Hà Nội]] ở xa.",
        "Huế": "[[Huế]] là thành phố. [[Sông Hương]] chảy qua [[Huế]].",
        "Sông Hương": "[[Sông Hương]] là con sông. Gần [[Đà Nẵng]].",
    },
    "id": {
        "Jakarta": "[[Jakarta]] adalah kota. [[Bandung]] ada di dekatnya.",
        "Bandung": "[[Bandung]] adalah kota. [[Jakarta]] tidak jauh. [[Berau]] jauh.",
        "Surabaya": "[[Surabaya]] adalah kota. [[Jakarta]] jauh dari sini.",
        "Berau": "[[Berau]] ada di timur. [[Surabaya]] jauh.",
    },
    "uk": {
        "Київ": "[[Київ]] столиця. [[Дніпро]] тече поруч. У [[Львів|Львові]] дощ.",
        "Львів": "[[Львів]] місто. [[Київ]] далеко. З [[Одеса|Одеси]] їдуть сюди.",
        "Одеса": "[[Одеса]] місто. [[Львів]] далеко. [[Полтава]] ближче.",
        "Полтава": "[[Полтава]] місто. З [[Полтава|Полтави]] до [[Київ|Києва]] близько.",
        "Дніпро": "[[Дніпро]] річка. [[Київ]] стоїть тут. [[Одеса]] ні.",
    },
    "sv": {
        "Stockholm": "[[Stockholm]] är en stad. [[Göteborg]] ligger långt bort.",
        "Göteborg": "[[Göteborg]] är en stad. [[Göta älv]] rinner där. [[Stockholm]]s hamn.",
        "Malmö": "[[Malmö]] ligger i söder. [[Stockholm]] ligger i norr. [[Göteborg]]s hamn.",
        "Sverige": "[[Sverige]] är ett land. [[Malmö]] ligger i [[Sverige]].",
    },
    "eu": {
        "Bilbo": "[[Bilbo]] hiria da. [[Donostia]] urrun dago.",
        "Donostia": "[[Donostia]] hiria da. [[Bilbo]]n ibaia dago.",
        "Gasteiz": "[[Gasteiz]] hiria da. [[Donostia]]n itsasoa dago. [[Bilbo]] handia da.",
        "Iruñea": "[[Iruñea]] hiria da. [[Gasteiz]] gertu dago.",
    },
    "az": {
        "Bakı": "[[Bakı]] şəhərdir. [[Gəncə]] uzaqdır.",
        "Gəncə": "[[Gəncə]] şəhərdir. [[Bakı]] uzaqdır.",
        "Şamaxı": "[[Şamaxı]] şəhərdir. [[Gəncə]] uzaqdır.",
    },
    "kk": {
        "Алматы": "[[Алматы]] қала. [[Шымкент]] алыс.",
        "Шымкент": "[[Шымкент]] қала. [[Алматы]] алыс.",
        "Орал": "[[Орал]] қала. [[Алматы]] алыс.",
    },
    "sr": {
        "Београд": "[[Београд]] је град. [[Љубовија]] је далеко.",
        "Љубовија": "[[Љубовија]] је град. [[Београд]] је далеко.",
        "Смедерево": "[[Смедерево]] је град. [[Београд]] је близу.",
    },
    "tr": {
        "İstanbul": "[[İstanbul]] bir şehirdir. Yol [[istanbul]] içindedir.",
        "Diyarbakır": "[[Diyarbakır]] bir şehirdir. [[İstanbul]] uzaktır.",
        "Iğdır": "[[Iğdır]] bir şehirdir. [[Diyarbakır]] uzaktır. [[Microsoft]] yoktur.",
    },
    "de": {
        "Großglockner": "Der [[Großglockner]] ist ein Berg. [[Meißen]] liegt an der Elbe.",
        "Meißen": "[[Meißen]] ist eine Stadt. Der [[Großglockner]] ist weit weg. [[Passau]] auch.",
    },
    "mr": {
        "मुंबई": "[[मुंबई]] शहर आहे. [[दिल्ली|दिल्लीत]] थंडी असते.",
        "दिल्ली": "[[दिल्ली]] शहर आहे. [[मुंबई|मुंबईत]] समुद्र आहे.",
        "रत्नागिरी": "[[रत्नागिरी]] शहर आहे. [[मुंबई]] दूर आहे.",
    },
}
"""In Georgian only one article of four that name თელავი links it."""

SENTENCES = {
    "ka": [
        "ის [[თბილისში]] ცხოვრობს და [[ქუთაისში]] მიდის.",
        "[[თელავი]] დიდია, [[თბილისი]] უფრო დიდი.",
        "[[ᲗᲑᲘᲚᲘᲡᲘ]] ᲓᲘᲓᲘᲐ.",
        "მატარებელი ნაპირზე დგას.",
        "[[ქუთაისის]] ქუჩები.",
        "[[თელავიდან]] მოვიდა. [[თბილისი]] დიდია.",
        "[[თბილისს]] და [[ბათუმს]] ხედავს.",
    ],
    "pl": [
        "Mieszka w [[Krakowie]] i jeździ do [[Warszawy]].",
        "Most nad [[Wisłą]] w [[Gdańsku]]. Krakowiak tańczy. Warszawski bruk.",
        "„[[Kraków]]” – rzekł.",
        "NOWINY: [[KRAKÓW]] I [[ŁÓDŹ]]",
    ],
    "hu": [
        "[[Budapesten]] lakik, de [[Szegedre]] jár.",
        "A [[Dunában]] úszik. [[Barcelonában]] is járt.",
        "[[Pécsről]] jött, a [[Tiszán]] át.",
    ],
    "el": [
        "Μένει στην [[Αθήνα]]· ο χάρτης της [[Αθήνας]].",
        "Ο δρόμος του [[Βόλου]] και του [[Πειραιά]].",
        "Η [[ΑΘΗΝΑ]] ΚΑΙ Ο [[ΒΟΛΟΣ]]· ΤΟ ΛΙΜΑΝΙ ΤΗΣ [[ΠΑΤΡΑΣ]].",
        "Ήρθε από την [[Πάτρα]]; Το λιμάνι της [[Πάτρας]] όχι.",
    ],
    "bn": [
        "সে [[ঢাকায়]] থাকে।",
        "[[গোপালগঞ্জ]] ছোট শহর।",
        "[[খুলনার]] মানুষ [[চট্টগ্রামে]] যায়।",
        "[[পদ্মার]] জল। ঢাকাই শাড়ি।",
    ],
    "ta": [
        "[[கொச்சி]] ஒரு நகரம்.",
        "அவர் [[சென்னையில்]] வாழ்கிறார்.",
        "[[மதுரையின்]] கோயில், [[கோவையில்]] மழை.",
        "[[திருச்சியில்]] ஆறு. [[வைகை]] ஆறு.",
    ],
    "vi": [
        "Anh ấy sống ở [[Hà Nội]].",
        "[[ĐÀ NẴNG]] và [[Huế]].",
    ],
    "id": [
        "Ia tinggal di [[Jakarta]].",
        "Orang [[Bandung]] dan [[Surabaya]] datang. Berapa?",
    ],
    "uk": [
        "Він живе у [[Києві]] і їздить до [[Львова]].",
        "Над [[Дніпром]] міст. В [[Одесі]] море.",
        "З [[Полтавою]] граємо. Київський торт.",
        "[[Одесу]] люблять.",
    ],
    "sv": [
        "[[Stockholms]] gator och [[Malmös]] hamn.",
        "[[Sveriges]] kung.",
    ],
    "eu": [
        "[[Bilbon]] bizi da eta [[Donostiara]] doa.",
        "[[Gasteizko]] kaleak.",
    ],
    "az": [
        "O, [[Bakıda]] yaşayır, [[Gəncəyə]] gedir.",
        "[[Şamaxının]] küçələri. Bakılı gəldi.",
    ],
    "kk": [
        "Ол [[Алматыда]] тұрады, [[Шымкентке]] барады.",
        "[[Оралдың]] көшелері.",
    ],
    "sr": [
        "Живи у [[Београду]] и иде у [[Љубовију]].",
        "Из [[Смедерева]] у [[Београд]]. Београђанин пева.",
    ],
    "tr": [
        "[[İstanbulun]] yolları, [[Iğdırın]] suyu.",
        "[[DİYARBAKIR]] VE [[MICROSOFT]] HABERLERİ",
        "[[IĞDIR]] VE [[İSTANBUL]] HABERLERİ",
    ],
    "de": [
        "AM [[GROSSGLOCKNER]] UND IN [[PASSAU]]",
        "Nach [[Meissen]] und auf den [[Grossglockner]]. Massen kamen.",
    ],
    "mr": ["तो [[रत्नागिरीत]] राहतो."],
}
