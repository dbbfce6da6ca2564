"""Small wikis in twelve languages, written for the tests, and new sentences with marked names.

Articles use the names as a dictionary has them and in some forms; the sentences use other forms.
A name in a sentence is marked as a link; what is inside the brackets is the span to find.
"""

import re
from functools import cache

from stamo.kb.base import KnowledgeBase
from stamo.linking.detect import MentionDetector
from stamo.linking.texts import join_texts
from tests.linking.small import build_wiki, folder

WIKIS = {
    "ko": {
        "서울": "[[서울]]은 수도이다. 강은 [[한강]]이라 한다. [[부산]]은 멀다.",
        "부산": "[[부산]]은 항구이다. [[서울]]에서 [[부산]]까지 간다. [[대한민국]]의 도시이다.",
        "한강": "[[한강]]은 [[서울]]을 흐른다. [[대한민국]]의 강이다.",
        "대한민국": "[[대한민국]]의 수도는 [[서울]]이다. [[제주도]]는 섬이다.",
        "제주도": "[[제주도]]는 [[대한민국]]의 섬이다. [[부산]]에서 배가 간다.",
    },
    "ja": {
        "東京": "[[東京]]は首都である。[[京都]]は古い都である。",
        "京都": "[[京都]]は寺が多い。[[東京]]から遠い。[[日本]]の町である。",
        "日本": "[[日本]]は島国である。[[東京]]と[[大阪]]がある。[[JR]]が走る。",
        "大阪": "[[大阪]]は[[京都]]に近い。[[JR]]で行く。",
        "JR": "[[JR]]は鉄道である。[[日本]]を走る。",
    },
    "zh": {
        "中国": "[[中国]]是国家。首都是[[北京]]。[[长江]]很长。",
        "北京": "[[北京]]是[[中国]]的首都。[[上海]]很远。",
        "上海": "[[上海]]在[[长江]]边。[[中国]]的城市。",
        "长江": "[[长江]]流过[[中国]]。[[上海]]在江边。",
        "台湾": "[[台湾]]是岛。[[中国]]的对面。",
    },
    "he": {
        "פריז": "[[פריז]] היא בירת [[צרפת]]. היא רחוקה מ[[לונדון]].",
        "צרפת": "[[צרפת]] היא מדינה. ב[[פריז]] יש מגדל. ב[[ליון]] יש נהר.",
        "לונדון": "[[לונדון]] היא עיר. ב[[לונדון]] גשום. מ[[פריז]] נוסעים אליה.",
        "ליון": "[[ליון]] היא עיר של [[צרפת]]. ל[[ליון]] יש נהר.",
    },
    "ar": {
        "فرنسا": "[[فرنسا]] دولة عاصمتها [[باريس]].",
        "باريس": "[[باريس]] مدينة في [[فرنسا]]. [[القاهرة]] بعيدة.",
        "القاهرة": "[[القاهرة]] عاصمة [[مصر]] على النيل.",
        "مصر": "[[مصر]] دولة. عاصمتها [[القاهرة]]. [[فرنسا]] بعيدة.",
    },
    "fa": {
        "ایران": "[[ایران]] کشوری است. پایتخت آن [[تهران]] است.",
        "تهران": "[[تهران]] شهری در [[ایران]] است. [[کرمان]] دور است.",
        "کرمان": "[[کرمان]] شهری در [[ایران]] است. [[شیراز]] زیباست.",
        "شیراز": "[[شیراز]] شهری در [[ایران]] است. [[تهران]] دور است.",
    },
    "ru": {
        "Москва": "[[Москва]] столица. [[Россия]] велика. [[Волга]] река.",
        "Россия": "[[Россия]] велика. В [[Самара|Самаре]] тепло. [[Лондон]] далеко.",
        "Лондон": "[[Лондон]] город. Из [[Берлин|Берлина]] в [[Лондон]] далеко.",
        "Берлин": "[[Берлин]] город. Из [[Лондон|Лондона]] в [[Берлин]] близко. [[Самара]] далеко.",
        "Самара": "[[Самара]] стоит на реке [[Волга]]. До [[Волга|Волги]] близко.",
        "Волга": "[[Волга]] река. На [[Волга|Волге]] стоит [[Самара]]. В [[Тула|Туле]] её нет.",
    },
    "fi": {
        "Helsinki": "[[Helsinki]] on iso. [[Helsinki|Helsingissä]] sataa. [[Turku]] on kaukana.",
        "Turku": "[[Turku]] on kaupunki. [[Turku|Turussa]] on joki. [[Tampere]] on kaukana.",
        "Tampere": "[[Tampere]] on kaupunki. [[Suomi]] on maa. [[Oulu|Oulussa]] on kylmä.",
        "Suomi": "[[Suomi]] on maa. [[Lahti]] ja [[Oulu]] ovat isoja. [[Kuopio|Kuopiossa]] sataa.",
        "Lahti": "[[Lahti]] on kaupunki. [[Suomi]] on maa. [[Kuopio]] on kaukana.",
    },
    "de": {
        "Berlin": "[[Berlin]] ist die Hauptstadt. [[Hamburg]] liegt am Meer.",
        "Hamburg": "[[Hamburg]] liegt an der [[Elbe]]. Der Hafen [[Hamburg]]s ist alt.",
        "Elbe": "Die [[Elbe]] fließt durch [[Dresden]] und [[Hamburg]].",
        "Dresden": "[[Dresden]] liegt an der [[Elbe]]. Die Türme [[Dresden]]s. [[Berlin]] ist nah.",
    },
    "tr": {
        "İstanbul": "[[İstanbul]] büyük bir şehirdir. [[Ankara]] başkenttir.",
        "Ankara": "[[Ankara]] başkenttir. [[İzmir]] deniz kenarındadır.",
        "İzmir": "[[İzmir]] bir şehirdir. [[Ankara]]'dan uzaktır. [[Türkiye]] ülkedir.",
        "Türkiye": "[[Türkiye]] bir ülkedir. [[İstanbul]]'da köprüler var.",
    },
    "hi": {
        "दिल्ली": "[[दिल्ली]] राजधानी है। [[भारत]] देश है।",
        "भारत": "[[भारत]] एक देश है। [[मुंबई]] एक शहर है। [[गंगा]] नदी है।",
        "मुंबई": "[[मुंबई]] [[भारत]] का शहर है। [[दिल्ली]] दूर है।",
        "गंगा": "[[गंगा]] [[भारत]] की नदी है।",
    },
    "th": {
        "กรุงเทพ": "[[กรุงเทพ]]เป็นเมืองหลวงของ[[ไทย]]",
        "ไทย": "[[ไทย]]เป็นประเทศ มี[[กรุงเทพ]]และ[[เชียงใหม่]]",
        "เชียงใหม่": "[[เชียงใหม่]]อยู่ทางเหนือของ[[ไทย]] ไกลจาก[[ภูเก็ต]]",
        "ภูเก็ต": "[[ภูเก็ต]]เป็นเกาะของ[[ไทย]]",
    },
}

SENTENCES = {
    "ko": [
        "[[서울]]은 [[부산]]에서 멀고 [[제주도]]보다 가깝다.",
        "[[대한민국]]의 [[한강]]도 [[서울]]까지 흐른다.",
        "그는 [[부산]]으로 갔다. [[제주도]]에는 바람이 많다.",
        "아이들이 부산스럽다. 서울대학교 학생이다.",
    ],
    "ja": [
        "[[ＪＲ]]で[[京都]]から[[大阪]]まで行った。",
        "[[日本]]の[[東京]]に住む。",
        "東日本は広い。",
        "昨日は[[東京]]で雪が降った。",
        "[[大阪]]へ行く電車に乗り遅れた。",
    ],
    "zh": [
        "[[中國]]的[[長江]]很长。",
        "[[上海]]和[[臺灣]]都在海边。",
        "他从[[北京]]来。",
        "发展中国家很多。",
        "昨天[[北京]]下了雪。",
        "他错过了去[[上海]]的火车。",
    ],
    "he": [
        "היא גרה ב[[פריז]] ונסעה ל[[לונדון]].",
        "הוא בא מ[[צרפת]] ו[[ליון]] יפה.",
        "ה[[פריז]] הישנה.",
        "אתמול ירד שלג ב[[פריז]].",
    ],
    "ar": [
        "زار [[مصر]] و[[فرنسا]] ثم عاد ل[[باريس]].",
        "ب[[القاهرة]] نيل.",
        "[[مصر]] بعيدة.",
        "يعيش ب[[باريس]] منذ سنوات.",
    ],
    "fa": [
        "[[ايران]] بزرگ است.",
        "از [[تهران]] تا [[كرمان]] راه است.",
        "[[شیراز]] و [[شيراز]] یکی است.",
        "[[ايران]] و همسایگانش.",
    ],
    "ru": [
        "Он жил в [[Москве]] и писал о [[России]].",
        "За [[Москвой]] течёт река; [[Самару]] он любил.",
        "О [[Лондоне]] и [[Берлине]] говорят много. [[Тула]] стара.",
        "Волгарь и Берлинский поют. Росси строил дом.",
        "Вчера в [[Самаре]] шёл снег.",
    ],
    "fi": [
        "Hän asuu [[Tampereella]] ja käy [[Helsingissä]].",
        "[[Suomessa]] on kylmä. [[Lahdessa]] ja [[Oulussa]] sataa.",
        "Turkulainen nauraa. Suomalainen puhuu. Oululainen tuli.",
        "Eilen [[Helsingissä]] satoi lunta.",
        "Hän tuli [[Kuopiosta]] ja meni [[Lahteen]].",
    ],
    "de": [
        "Die Parks [[Berlins]] sind groß.",
        "Das Wasser der [[Elbe]] ist kalt. [[Hamburgs]] Hafen.",
        "Die Brücken [[Dresdens]] sind alt.",
        "[[Berlins]] Bürgermeister sprach.",
        "Der Berliner lachte.",
        "Der Hamburger Hafen ist groß.",
    ],
    "tr": [
        "[[İstanbul]]'da yağmur var, [[Ankara]]'ya kar yağdı.",
        "[[İzmir]]'in denizi, [[Türkiye]]'nin dağları.",
        "Dün [[Ankara]]'da kar yağdı.",
        "[[İstanbul]]'un köprüleri eskidir.",
    ],
    "hi": [
        "वह [[दिल्ली]] में रहता है।",
        "[[मुंबई]] और [[गंगा]] [[भारत]] में हैं।",
        "भारतीय लोग हँसते हैं।",
    ],
    "th": [
        "เขาไป[[เชียงใหม่]]และ[[ภูเก็ต]]",
        "[[กรุงเทพ]]ใหญ่มาก",
        "เมื่อวานฝนตกที่[[กรุงเทพ]]",
    ],
}

_MARK = re.compile(r"\[\[(.*?)\]\]")
Span = tuple[int, int]


def unmark(sentence: str) -> tuple[str, set[Span]]:
    """Take the marks out of a sentence; return the spans they enclosed."""
    spans, text, last = set(), "", 0
    for match in _MARK.finditer(sentence):
        text += sentence[last : match.start()]
        spans.add((len(text), len(text) + len(match[1])))
        text, last = text + match[1], match.end()
    return text + sentence[last:], spans


@cache
def wiki_kb(language: str) -> KnowledgeBase:
    """Build the wiki of a language."""
    return build_wiki(folder("languages"), language, WIKIS[language])


def found_spans(language: str, text: str) -> dict[Span, str]:
    """Detect names in a text; return what each most often means, by span."""
    kb = wiki_kb(language)
    found = MentionDetector(kb).detect(join_texts([text]))
    spans = zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    meant = kb.by_alias.batch(found.aliases, 1)[0][:, 0]
    return dict(zip(spans, kb.titles(meant), strict=True))


def recall_and_precision(language: str) -> tuple[float, float]:
    """Measure detection on new sentences of a language."""
    hits, n_gold, n_found = 0, 0, 0
    for sentence in SENTENCES[language]:
        text, gold = unmark(sentence)
        found = set(found_spans(language, text))
        hits, n_gold, n_found = hits + len(gold & found), n_gold + len(gold), n_found + len(found)
    return hits / n_gold, hits / max(n_found, 1)
