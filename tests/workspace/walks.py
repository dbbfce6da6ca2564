"""A new ship in many languages: texts about it in several forms of its name, and about a café.

In each text `{}` is a form of the name; a café of the same name is the other meaning.
"""

WIKIS = {
    "cs": {
        "Praha": "[[Praha]] je město. Řeka [[Vltava]] teče městem.",
        "Vltava": "[[Vltava]] je řeka. Teče přes [[Praha|Prahu]]. [[Hamburk]] je přístav.",
        "Hamburk": "[[Hamburk]] je přístav. [[Praha]] je daleko.",
    },
    "pl": {
        "Gdańsk": "[[Gdańsk]] leży nad morzem. [[Warszawa]] jest daleko.",
        "Warszawa": "[[Warszawa]] jest stolicą. [[Gdańsk]] jest portem. [[Łódź]] jest blisko.",
        "Łódź": "[[Łódź]] to miasto. [[Gdańsk]] to port.",
    },
    "fi": {
        "Turku": "[[Turku]] on kaupunki. [[Helsinki]] on iso.",
        "Helsinki": "[[Helsinki]] on satama. [[Turku]] on kaukana. [[Lahti]] ei.",
        "Lahti": "[[Lahti]] on kaupunki. [[Turku]] on satama.",
    },
    "el": {
        "Αθήνα": "Η [[Αθήνα]] είναι πρωτεύουσα. Ο [[Πειραιάς]] είναι λιμάνι.",
        "Πειραιάς": "Ο [[Πειραιάς]] είναι λιμάνι. Η [[Αθήνα]] είναι κοντά. Η [[Πάτρα]] όχι.",
        "Πάτρα": "Η [[Πάτρα]] είναι πόλη. Ο [[Πειραιάς]] είναι μακριά.",
    },
    "uk": {
        "Одеса": "[[Одеса]] порт. [[Київ]] столиця.",
        "Київ": "[[Київ]] столиця. [[Одеса]] далеко. [[Рига]] ще далі.",
        "Рига": "[[Рига]] порт. [[Одеса]] теж порт.",
    },
    "vi": {
        "Hà Nội": "[[Hà Nội]] là thủ đô. [[Đà Nẵng]] ở xa.",
        "Đà Nẵng": "[[Đà Nẵng]] là cảng. [[Huế]] ở gần. [[Hà Nội]] ở xa.",
        "Huế": "[[Huế]] là thành phố. [[Đà Nẵng]] ở gần.",
    },
    "th": {
        "กรุงเทพ": "[[กรุงเทพ]]เป็นเมืองหลวงของ[[ไทย]]",
        "ไทย": "[[ไทย]]เป็นประเทศ มี[[กรุงเทพ]]และ[[ภูเก็ต]]",
        "ภูเก็ต": "[[ภูเก็ต]]เป็นเกาะของ[[ไทย]]",
    },
}

NAMES = {
    "cs": "Polárka",
    "pl": "Polarka",
    "fi": "Pohjanniska",
    "el": "Πόλαρος",
    "uk": "Полярка",
    "vi": "Sao Biển",
    "th": "ดาวเหนือ",
    "ko": "아라온",
}

SHIP = {
    "cs": {
        "Výzkumná loď {} vyplula z přístavu a lámala led Antarktidy.": "Polárka",
        "Vědci na lodi {} měřili led a vítr v Antarktidě. Plavba trvala tři měsíce.": "Polárce",
        "Kapitán výzkumné lodi {} hlásil silný led u pobřeží Antarktidy.": "Polárky",
    },
    "pl": {
        "Statek badawczy {} wyszedł z portu i łamał lód Antarktydy.": "Polarka",
        "Uczeni na statku {} mierzyli lód i wiatr na Antarktydzie.": "Polarce",
        "Kapitan statku badawczego {} zgłosił gruby lód u brzegu Antarktydy.": "Polarki",
    },
    "fi": {
        "Tutkimusalus {} lähti satamasta ja mursi Etelämantereen jäätä. Miehistö mittasi tuulta.": (
            "Pohjanniska"
        ),
        "Tutkijat mittasivat jäätä ja tuulta aluksella {} Etelämantereella. Matka oli pitkä.": (
            "Pohjanniskalla"
        ),
        "Tutkimusaluksen {} kapteeni kertoi paksusta jäästä Etelämantereen rannalla.": (
            "Pohjanniskan"
        ),
    },
    "el": {
        "Το ερευνητικό πλοίο {} έφυγε και έσπασε τον πάγο της Ανταρκτικής.": "Πόλαρος",
        "Οι επιστήμονες του πλοίου {} μέτρησαν πάγο και άνεμο στην Ανταρκτική.": "Πόλαρου",
        "Το πλήρωμα είδε από το πλοίο {} τον πάγο της Ανταρκτικής να σπάει.": "Πόλαρο",
    },
    "uk": {
        "Наукове судно {} вийшло з порту й ламало лід Антарктики. Команда міряла вітер.": "Полярка",
        "Учені на судні {} міряли лід і вітер в Антарктиці.": "Полярці",
        "Капітан наукового судна {} повідомив про товстий лід біля берега Антарктики.": "Полярки",
    },
    "vi": {
        "Tàu nghiên cứu {} rời cảng và phá băng Nam Cực. Thủy thủ đoàn đo gió.": "Sao Biển",
        "Các nhà khoa học trên tàu {} đo băng và gió ở Nam Cực trong ba tháng.": "Sao Biển",
        "Thuyền trưởng tàu {} báo băng dày gần bờ Nam Cực.": "Sao Biển",
    },
    "th": {
        "เรือวิจัย{}ออกจากท่าเรือและตัดน้ำแข็งในแอนตาร์กติกา ลูกเรือวัดลม": "ดาวเหนือ",
        "นักวิทยาศาสตร์บนเรือ{}วัดน้ำแข็งและลมในแอนตาร์กติกาสามเดือน": "ดาวเหนือ",
        "กัปตันเรือ{}รายงานน้ำแข็งหนาใกล้ฝั่งแอนตาร์กติกา": "ดาวเหนือ",
    },
    "ko": {
        "쇄빙 연구선 {}은 남극 바다의 얼음을 깨고 나아갔다. 과학자들이 배에 탔다.": "아라온",
        "연구원들이 배 {}에서 얼음 시료를 모았다. 남극 항해는 석 달이다.": "아라온",
        "남극 기지로 가는 배 {}이 항구를 떠났다. 얼음이 두껍다.": "아라온",
    },
}

CAFE = {
    "cs": {
        "V kavárně {} mají dobrou kávu a koláče. Hostů je mnoho.": "Polárka",
        "Po obědě jsme pili kávu v kavárně {} na náměstí.": "Polárce",
        "Káva z kavárny {} je levná a koláče jsou čerstvé.": "Polárky",
    },
    "pl": {
        "W kawiarni {} jest dobra kawa i ciasto. Gości jest wielu.": "Polarka",
        "Po obiedzie piliśmy kawę w kawiarni {} na rynku.": "Polarce",
        "Kawa z kawiarni {} jest tania, a ciasto świeże.": "Polarki",
    },
    "fi": {
        "Kahvilassa {} on hyvää kahvia ja pullaa. Asiakkaita on paljon.": "Pohjanniska",
        "Joimme lounaan jälkeen kahvia kahvilassa {} torin reunalla.": "Pohjanniskalla",
        "Kahvilan {} kahvi on halpaa ja pulla tuoretta.": "Pohjanniskan",
    },
    "el": {
        "Το καφενείο {} έχει καλό καφέ και γλυκά. Οι πελάτες είναι πολλοί.": "Πόλαρος",
        "Ο καφές του καφενείου {} είναι φτηνός και τα γλυκά φρέσκα.": "Πόλαρου",
        "Μετά το φαγητό ήπιαμε καφέ στο καφενείο {} της πλατείας.": "Πόλαρο",
    },
    "uk": {
        "У кав'ярні {} добра кава й тістечка. Гостей багато.": "Полярка",
        "Після обіду ми пили каву в кав'ярні {} на площі.": "Полярці",
        "Кава з кав'ярні {} дешева, а тістечка свіжі.": "Полярки",
    },
    "vi": {
        "Quán cà phê {} có cà phê ngon và bánh ngọt. Khách rất đông.": "Sao Biển",
        "Sau bữa trưa chúng tôi uống cà phê ở quán {} trên quảng trường.": "Sao Biển",
        "Cà phê của quán {} rẻ và bánh ngọt thì tươi.": "Sao Biển",
    },
    "th": {
        "ร้านกาแฟ{}มีกาแฟและขนมอร่อย ลูกค้ามากมาย": "ดาวเหนือ",
        "หลังอาหารกลางวันเราดื่มกาแฟที่ร้าน{}ใกล้ตลาด": "ดาวเหนือ",
        "กาแฟของร้าน{}ราคาถูกและขนมสดใหม่": "ดาวเหนือ",
    },
    "ko": {
        "시내의 카페 {}은 커피와 빵이 맛있다. 손님이 많다.": "아라온",
        "우리는 점심 뒤에 카페 {}에서 커피를 마셨다. 값이 싸다.": "아라온",
        "카페 {}의 새로운 빵을 팔기 시작했다. 커피는 그대로이다.": "아라온",
    },
}

LAST = {
    "cs": ("S výzkumnou lodí {} měřili vědci led Antarktidy i v Praze.", "Polárkou", "Praze"),
    "pl": ("Uczeni mieli statek badawczy {} na lód Antarktydy, także w Łodzi.", "Polarkę", "Łodzi"),
    "fi": ("Tutkijat mittasivat jäätä alusta {} varten, myös Turussa.", "Pohjanniskaa", "Turussa"),
    "el": ("Από το πλοίο {} είδαν πάγο στην Ανταρκτική και του Πειραιά.", "Πόλαρο", "Πειραιά"),
    "uk": ("Учені на судно {} міряли лід Антарктики і в Ризі.", "Полярку", "Ризі"),
    "vi": (
        "TÀU SAO BIỂN PHÁ BĂNG. Tàu rời cảng và phá băng Nam Cực. Thủy thủ ở Huế.",
        "SAO BIỂN",
        "Huế",
    ),
    "th": ("นักวิทยาศาสตร์บนเรือ{}วัดน้ำแข็งถึงภูเก็ต", "ดาวเหนือ", "ภูเก็ต"),
    "ko": ("연구선 {}에서 남극의 얼음을 보았다. 부산으로 갔다.", "아라온", "부산"),
}
"""A new sentence about the ship, the form of its name in it, and a known name beside it."""
KNOWN = {
    **{"cs": "Praha", "pl": "Łódź", "fi": "Turku", "el": "Πειραιάς", "uk": "Рига"},
    **{"vi": "Huế", "th": "ภูเก็ต", "ko": "부산"},
}
