"""A new ship in many languages: texts about it in several forms of its name, and about a café.

In each text `{}` is a form of the name; a café of the same name is the other meaning.
"""

WIKIS = {
    "cs": {
        "Praha": "[[Praha]] je město. Řeka [[Vltava]] teče městem.",
        "Vltava": "[[Vltava]] je řeka. Teče přes [[Praha|Prahu]]. [[Hamburk]] je přístav.",
        "Hamburk": "[[Hamburk]] je přístav. [[Praha]] je daleko.",
    },
    "fi": {
        "Turku": "[[Turku]] on kaupunki. [[Helsinki]] on iso.",
        "Helsinki": "[[Helsinki]] on satama. [[Turku]] on kaukana. [[Lahti]] ei.",
        "Lahti": "[[Lahti]] on kaupunki. [[Turku]] on satama.",
    },
    "th": {
        "กรุงเทพ": "[[กรุงเทพ]]เป็นเมืองหลวงของ[[ไทย]]",
        "ไทย": "[[ไทย]]เป็นประเทศ มี[[กรุงเทพ]]และ[[ภูเก็ต]]",
        "ภูเก็ต": "[[ภูเก็ต]]เป็นเกาะของ[[ไทย]]",
    },
}

NAMES = {
    "cs": "Polárka",
    "fi": "Pohjanniska",
    "th": "ดาวเหนือ",
}

SHIP = {
    "cs": {
        "Výzkumná loď {} vyplula z přístavu a lámala led Antarktidy.": "Polárka",
        "Vědci na lodi {} měřili led a vítr v Antarktidě. Plavba trvala tři měsíce.": "Polárce",
        "Kapitán výzkumné lodi {} hlásil silný led u pobřeží Antarktidy.": "Polárky",
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
    "th": {
        "เรือวิจัย{}ออกจากท่าเรือและตัดน้ำแข็งในแอนตาร์กติกา ลูกเรือวัดลม": "ดาวเหนือ",
        "นักวิทยาศาสตร์บนเรือ{}วัดน้ำแข็งและลมในแอนตาร์กติกาสามเดือน": "ดาวเหนือ",
        "กัปตันเรือ{}รายงานน้ำแข็งหนาใกล้ฝั่งแอนตาร์กติกา": "ดาวเหนือ",
    },
}

CAFE = {
    "cs": {
        "V kavárně {} mají dobrou kávu a koláče. Hostů je mnoho.": "Polárka",
        "Po obědě jsme pili kávu v kavárně {} na náměstí.": "Polárce",
        "Káva z kavárny {} je levná a koláče jsou čerstvé.": "Polárky",
    },
    "fi": {
        "Kahvilassa {} on hyvää kahvia ja pullaa. Asiakkaita on paljon.": "Pohjanniska",
        "Joimme lounaan jälkeen kahvia kahvilassa {} torin reunalla.": "Pohjanniskalla",
        "Kahvilan {} kahvi on halpaa ja pulla tuoretta.": "Pohjanniskan",
    },
    "th": {
        "ร้านกาแฟ{}มีกาแฟและขนมอร่อย ลูกค้ามากมาย": "ดาวเหนือ",
        "หลังอาหารกลางวันเราดื่มกาแฟที่ร้าน{}ใกล้ตลาด": "ดาวเหนือ",
        "กาแฟของร้าน{}ราคาถูกและขนมสดใหม่": "ดาวเหนือ",
    },
}

LAST = {
    "cs": ("S výzkumnou lodí {} měřili vědci led Antarktidy i v Praze.", "Polárkou", "Praze"),
    "fi": ("Tutkijat mittasivat jäätä alusta {} varten, myös Turussa.", "Pohjanniskaa", "Turussa"),
    "th": ("นักวิทยาศาสตร์บนเรือ{}วัดน้ำแข็งถึงภูเก็ต", "ดาวเหนือ", "ภูเก็ต"),
}
"""A new sentence about the ship, the form of its name in it, and a known name beside it."""
KNOWN = {"cs": "Praha", "fi": "Turku", "th": "ภูเก็ต"}
