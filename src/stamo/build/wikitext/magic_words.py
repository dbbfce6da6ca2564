"""Words with a meaning of their own in wikitext, by language: prefixes, redirects, templates."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _names(text: str) -> frozenset[str]:
    return frozenset(" ".join(name.split()).casefold() for name in text.split(",")) - {""}


LANGUAGE_CODES = _words(
    """
    aa ab ace ady af ak als alt am ami an ang ann anp ar arc ary arz as ast atj av avk awa ay az azb
    ba ban bar bat-smg bbc bcl bdr be be-tarask be-x-old bew bg bh bi bjn blk bm bn bo bpy br bs btm
    bug bxr ca cbk-zam cdo ce ceb ch cho chr chy ckb co cr crh cs csb cu cv cy da dag de dga din diq
    dsb dtp dty dv dz ee el eml en eo es et eu ext fa fat ff fi fiu-vro fj fo fon fr frp frr fur fy
    ga gag gan gcr gd gl glk gn gom gor got gpe gsw gu guc gur guw gv ha hak haw he hi hif ho hr hsb
    ht hu hy hyw hz ia iba id ie ig igl ii ik ilo inh io is it iu ja jam jbo jp jv ka kaa kab kaj
    kbd kbp kcg kg kge ki kj kk kl km kn knc ko koi kr krc ks ksh ku kus kv kw ky la lad lb lbe lez
    lfn lg li lij lld lmo ln lo lrc lt ltg lv lzh mad mai map-bms mdf mg mh mhr mi min mk ml mn mni
    mnw mo mos mr mrj ms mt mus mwl my myv mzn na nah nan nap nb nds nds-nl ne new ng nia nl nn no
    nov nqo nr nrm nso nup nv ny oc olo om or os pa pag pam pap pcd pcm pdc pdt pfl pi pih pl pms
    pnb pnt ps pt pwn qu rm rmy rn ro roa-rup roa-tara rsk ru rue rup rw sa sah sat sc scn sco sd se
    sg sgs sh shi shn shy si simple sk skr sl sm smn sn so sq sr srn ss st stq su sv sw syl szl szy
    ta tay tcy tdd te tet tg th ti tig tk tl tlh tly tn to tokipona tpi tr trv ts tt tum tw ty tyv
    udm ug uk ur uz ve vec vep vi vls vo vro wa war wo wuu xal xh xmf yi yo yue za zea zgh zh
    zh-cfr zh-classical zh-cn zh-min-nan zh-tw zh-yue zu
    """
)
"""Prefixes of the Wikipedias in other languages; a bare `[[fr:X]]` is a language link."""

SISTER_PROJECTS = _words(
    """
    w wikipedia wikt wiktionary s wikisource q wikiquote b wikibooks n wikinews v wikiversity voy
    wikivoyage c commons m meta metawikipedia metawiki species wikispecies d wikidata f
    wikifunctions mw mediawikiwiki foundation wmf wikimedia wikitech incubator outreach phab
    phabricator bugzilla gerrit toollabs toolforge betawikiversity dict google imdbname
    imdbtitle isbn rfc doi arxiv wikicities wikia sep11 meatball memoryalpha nost nostalgia
    strategy testwiki translatewiki mail mailarchive otrs oldwikisource
    """
)
"""Prefixes of sister projects and of other sites that Wikipedia's interwiki table knows."""

FILE_ALIASES: dict[str, tuple[str, ...]] = {
    "ar": ("صورة", "ملف"),
    "az": ("şəkil", "fayl"),
    "be": ("выява", "файл"),
    "bg": ("картинка", "файл"),
    "bn": ("চিত্র",),
    "bs": ("slika", "datoteka"),
    "ca": ("imatge", "fitxer"),
    "cs": ("obrázek", "soubor"),
    "cy": ("delwedd",),
    "da": ("billede", "fil"),
    "de": ("bild", "datei"),
    "el": ("εικόνα", "αρχείο"),
    "eo": ("dosiero",),
    "es": ("imagen", "archivo"),
    "et": ("pilt", "fail"),
    "eu": ("irudi", "fitxategi"),
    "fa": ("تصویر", "پرونده"),
    "fi": ("kuva", "tiedosto"),
    "fr": ("fichier",),
    "gl": ("imaxe", "ficheiro"),
    "he": ("תמונה", "קובץ"),
    "hi": ("चित्र",),
    "hr": ("slika", "datoteka"),
    "hu": ("kép", "fájl"),
    "hy": ("պատկեր",),
    "id": ("gambar", "berkas"),
    "is": ("mynd",),
    "it": ("immagine",),
    "ja": ("画像", "ファイル"),
    "ka": ("სურათი", "ფაილი"),
    "kk": ("сурет",),
    "ko": ("그림", "파일"),
    "la": ("imago", "fasciculus"),
    "lt": ("vaizdas",),
    "lv": ("attēls",),
    "mk": ("слика", "податотека"),
    "ms": ("imej", "fail"),
    "nb": ("bilde", "fil"),
    "nl": ("afbeelding", "bestand"),
    "nn": ("bilde", "fil"),
    "no": ("bilde", "fil"),
    "pl": ("grafika", "plik"),
    "pt": ("imagem", "ficheiro", "arquivo"),
    "ro": ("imagine", "fișier", "fişier"),
    "ru": ("изображение", "файл"),
    "sh": ("slika", "datoteka"),
    "sk": ("obrázok", "súbor"),
    "sl": ("slika", "datoteka"),
    "sq": ("figura", "skeda"),
    "sr": ("слика", "датотека", "slika", "datoteka"),
    "sv": ("bild", "fil"),
    "th": ("ภาพ", "ไฟล์"),
    "tr": ("resim", "dosya"),
    "uk": ("зображення", "файл"),
    "uz": ("tasvir", "fayl"),
    "vi": ("hình", "tập tin"),
    "zh": ("图像", "圖像", "文件", "檔案", "档案"),
}
"""Older names of the file namespace, which articles keep using and siteinfo does not list."""

REDIRECT_WORDS = _names(
    """
    redirect, redirection, redirección, redireccion, redirecionamento, redirecciona,
    weiterleitung, rinvia, rinvio, doorverwijzing, patrz, przekieruj, tam, przekierowanie,
    перенаправление, перенапр, перенаправлення, пренасочване, виж, преусмери, преусмјери,
    пренасочување, види, перанакіраванне, перанакіраваньне, айдау, юнәлтү, йүнәлтеү,
    転送, リダイレクト, 重定向, 重新導向, 넘겨주기, تحويل, تغییر مسیر, تغییرمسیر, הפניה,
    omdirigering, omdiriger, viderestilling, ohjaus, uudelleenohjaus, tilvísun, přesměruj,
    presmeruj, preusmjeri, preusmeri, átirányítás, yönlendirme, YÖNLENDİRME, yönlendir,
    istiqamətləndirmə, alih, lencong, đổi, ανακατευθυνση, alidirektu, birzuzendu,
    peradresavimas, suuna, ail-cyfeirio, athsheoladh, aanstuur, redirecteaza, adkas,
    पुनर्प्रेषित, अनुप्रेषित, തിരിച്ചുവിടുക, దారిమార్పు, வழிமாற்று, เปลี่ยนทาง,
    გადამისამართება, վերահղում
    """
)
"""Words that follow `#` on the first line of a redirect."""

DISAMBIGUATION_TEMPLATES = _names(
    """
    disambig, disambiguation, disambiguation page, disamb, dab, dabpage, disam, disambiguate,
    disambig-cleanup, disambiguation cleanup, dab-cleanup, disambig cleanup, disambig2, dp,
    hndis, hndis-cleanup, human name disambiguation, geodis, geo-dis, geodab, place name
    disambiguation, tladisambig, tlad, tla, tla-dab, tlacat, 2cc, 3cc, 4cc, 4la, 5la, 6la, 2la,
    lnd, lndis, letter-disambig, letter-numbercombdisambig, letter-number combination
    disambiguation, letter disambiguation, letter-number-combination disambiguation, numberdis,
    numdab, number disambiguation, roaddis, road disambiguation, roadis, schooldis, school
    disambiguation, hospitaldis, hospital disambiguation, mathdab, mathematical disambiguation,
    mil-unit-dis, military unit disambiguation, miltdis, airport disambiguation, airport dab,
    biology disambiguation, genus disambiguation, species latin name disambiguation, species latin
    name abbreviation disambiguation, species disambiguation, taxonomy disambiguation, taxonomic
    authority disambiguation, callsigndis, call sign disambiguation, church disambiguation,
    station disambiguation, chinese title disambiguation, opus disambiguation, phonetics
    disambiguation, portal disambiguation, case law disambiguation, caselaw disambiguation,
    township disambiguation, townshipdis, synagogue disambiguation, wikipedia
    disambiguation, disambiguation-geo, given name disambiguation, surname
    disambiguation,
    begriffsklärung, bkl, begriffsklaerung,
    homonymie, homonymes, homonyme, patronymie, toponymie, paronymie, arrondissements homonymes,
    communes françaises homonymes,
    desambiguación, desambiguacion, desambig, desambiguación2, disambigua, disambiguazione,
    desambiguação, desambiguacao, dp, doorverwijspagina, dpintro, doorverwijspagina-intro,
    ujednoznacznienie, strona ujednoznaczniająca,
    неоднозначность, многозначность, неоднозначные термины, однофамильцы, список однофамильцев,
    тёзки, тезки, багатозначність, неоднозначність, багатозначність-ред,
    förgrening, gren, förgreningssida, efternamn-förgrening, ortnamn, robotskapad förgrening,
    flertydig, flertydig1, peker, pekerside, flertydige, fleirtyding, flertydighet,
    täsmennyssivu, täsmennys,
    rozcestník, rozcestnik, rozlišovacia stránka, disambigp, egyért, egyértelműsítő lap, egyert,
    dezambiguizare, dezambig, anlam ayrımı, anlamayrımı, razvrstavanje, razdvojba, višeznačnost,
    višeznačna odrednica, вишезначна одредница, вишезначност, razločitev, пояснение,
    αποσαφήνιση, αποσαφ, פירושונים, توضيح, ابهام‌زدایی, گنگی, ابهام زدایی, صفحة توضيح,
    aimai, 曖昧さ回避, 人名の曖昧さ回避, 地名の曖昧さ回避, 同名の地名, 駅名の曖昧さ回避, 同名の人物,
    消歧义, 消歧義, 消歧義頁, 消歧义页, 人名消歧义, 人名消歧義, 地名消歧义, 地名消歧義,
    동음이의, 동음이의어 문서, 동명이인, 동음이의/사람 이름,
    trang định hướng, định hướng, thdh, disambiguasi, nyahkekaburan, แก้กำกวม, แก้ความกำกวม,
    apartigilo, apartigiloj, desambiguació, argipen, homónimos, homonimos, homónimos fonéticos,
    nuorodinis straipsnis, nuorodinis, nuorodinė,
    nozīmju atdalīšana, täpsustuslehekülg, täpsustus,
    discretiva, aðgreining, gwahaniaethu, idirdhealú,
    мнагазначнасць, неадназначнасць,
    дәл емес, dəqiqləşdirmə, बहुविकल्पी, बहुविकल्पी शब्द,
    দ্ব্যর্থতা নিরসন, பக்கவழி நெறிப்படுத்தல், వివరమైన అయోమయ నివృత్తి, అయోమయ నివృత్తి, വിവക്ഷകൾ,
    მრავალმნიშვნელოვანი, բազմիմաստություն, kthjellim, kthjellime, појаснување, dubbelsinnig,
    verduideliking, disheñvelout, ابہام, ضد ابہام
    """
)
"""Case-folded names of the templates that mark a page as a list of meanings."""

DISAMBIGUATION_SUFFIXES = _names(
    """
    disambiguation, begriffsklärung, homonymie, desambiguación, disambigua, desambiguação,
    doorverwijspagina, ujednoznacznienie, значения, значення, olika betydelser, flertydig,
    andre betydninger, täsmennyssivu, rozcestník, rozlišovacia stránka, egyértelműsítő lap,
    dezambiguizare, anlam ayrımı, razvrstavanje, višeznačna odrednica, вишезначна одредница,
    razločitev, пояснение, αποσαφήνιση, פירושונים, توضيح, ابهام‌زدایی, 曖昧さ回避, 消歧义, 消歧義,
    동음이의, định hướng, disambiguasi, nyahkekaburan, แก้ความกำกวม, apartigilo, desambiguació,
    argipen, homónimos, reikšmės, nozīmju atdalīšana, täpsustus, discretiva, aðgreining,
    gwahaniaethu, idirdhealú, значэнні, мағыналар, dəqiqləşdirmə, बहुविकल्पी, দ্ব্যর্থতা নিরসন,
    மாற்றுப் பயன்பாடுகள், అయోమయ నివృత్తి, വിവക്ഷകൾ, მრავალმნიშვნელოვანი, բազմիմաստություն,
    kthjellim, појаснување, dubbelsinnig, disheñvelout
    """
)
"""Case-folded words that stand in brackets at the end of a disambiguation page's title."""
