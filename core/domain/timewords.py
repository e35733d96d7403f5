"""Words of time in five languages, as data for `timeexpr`; folded when they are read. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from core.domain.folding import folded


class Sort(StrEnum):
    """What a word does in an expression of time; one word can do several."""

    MONTH = "month"
    WEEKDAY = "weekday"
    UNIT = "unit"
    NUMBER = "number"
    ORDINAL = "ordinal"
    FEW = "few"
    DAY = "day"
    PART = "part"
    LAST_NIGHT = "last_night"
    SEASON = "season"
    LAST = "last"
    THIS = "this"
    AGO = "ago"
    AGO_FIRST = "ago_first"
    IN = "in"
    ON = "on"
    SINCE = "since"
    AFTER = "after"
    BEFORE = "before"
    UNTIL = "until"
    BETWEEN = "between"
    AND = "and"
    FROM = "from"
    TO = "to"
    VAGUE = "vague"
    WHEN = "when"
    FILLER = "filler"


MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
UNITS = ("minute", "hour", "day", "week", "month", "quarter", "year", "weekend")
PARTS = ("morning", "afternoon", "evening", "night")
SEASONS = ("spring", "summer", "autumn", "winter")
VAGUE = ("recent", "past")


@dataclass(frozen=True, slots=True)
class Language:
    """One language: what each phrase of folded words means, by length of phrase.

    `common`: words that tell the language. `doubtful`: months and seasons that are everyday words too. `foreign`:
    phrases that mean something else in another language, and count only where this one is spoken.
    """

    name: str
    phrases: Mapping[tuple[str, ...], Mapping[Sort, int]]
    longest: int
    common: frozenset[str]
    doubtful: frozenset[str]
    foreign: frozenset[str]


_ENGLISH: Mapping[Sort, str] = {
    Sort.MONTH: "january jan|february feb|march mar|april apr|may|june jun|july jul|august aug|september sep sept"
    "|october oct|november nov|december dec",
    Sort.WEEKDAY: "monday|tuesday|wednesday|thursday|friday|saturday|sunday",
    Sort.UNIT: "minute minutes|hour hours|day days|week weeks|month months|quarter quarters|year years|weekend",
    Sort.NUMBER: "|a an one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve",
    Sort.ORDINAL: "|first|second|third|fourth",
    Sort.FEW: "few couple several",
    Sort.DAY: "today|yesterday|day_before_yesterday",
    Sort.PART: "morning|afternoon|evening|night",
    Sort.SEASON: "spring|summer|autumn fall|winter",
    Sort.LAST: "last past previous",
    Sort.THIS: "this current",
    Sort.AGO: "ago",
    Sort.IN: "in during throughout around early late mid within",
    Sort.ON: "on at over",
    Sort.SINCE: "since",
    Sort.AFTER: "after",
    Sort.BEFORE: "before",
    Sort.UNTIL: "until till",
    Sort.BETWEEN: "between",
    Sort.AND: "and",
    Sort.FROM: "from",
    Sort.TO: "to until till through",
    Sort.VAGUE: "recently lately the_other_day not_long_ago a_short_while_ago"
    "|back_then at_that_time in_those_days long_ago a_long_time_ago years_ago in_the_past back_in_the_day",
    Sort.WHEN: "when",
    Sort.FILLER: "the of",
}
_GERMAN: Mapping[Sort, str] = {
    Sort.MONTH: "januar jänner jan|februar feber feb|märz|april apr|mai|juni jun|juli jul|august aug|september sep sept"
    "|oktober okt|november nov|dezember dez",
    Sort.WEEKDAY: "montag|dienstag|mittwoch|donnerstag|freitag|samstag sonnabend|sonntag",
    Sort.UNIT: "minute minuten|stunde stunden|tag tage tagen|woche wochen|monat monate monaten monats"
    "|quartal quartale quartalen quartals|jahr jahre jahren jahres|wochenende wochenenden",
    Sort.NUMBER: "|ein eine einem einer einen|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf",
    Sort.ORDINAL: "|erste ersten erstes|zweite zweiten zweites|dritte dritten drittes|vierte vierten viertes",
    Sort.FEW: "paar ein_paar einige einigen wenige wenigen mehreren",
    Sort.DAY: "heute|gestern|vorgestern",
    Sort.PART: "morgen früh vormittag|nachmittag mittag|abend|nacht",
    Sort.SEASON: "frühling frühjahr|sommer|herbst|winter",
    Sort.LAST: "letzte letzten letzter letztes letztem vorige vorigen voriger voriges vorigem vergangene vergangenen "
    "vergangener vergangenes",
    Sort.THIS: "diese diesen dieser dieses diesem",
    Sort.AGO_FIRST: "vor",
    Sort.IN: "im in während anfang ende mitte",
    Sort.ON: "am an übers",
    Sort.SINCE: "seit",
    Sort.AFTER: "nach",
    Sort.BEFORE: "vor",
    Sort.UNTIL: "bis",
    Sort.BETWEEN: "zwischen",
    Sort.AND: "und",
    Sort.FROM: "von vom",
    Sort.TO: "bis bis_zum",
    Sort.VAGUE: "neulich kürzlich letztens vor_kurzem in_letzter_zeit unlängst"
    "|damals früher seinerzeit vor_langer_zeit zu_jener_zeit",
    Sort.WHEN: "wann",
    Sort.FILLER: "der die das dem den des",
}
_FRENCH: Mapping[Sort, str] = {
    Sort.MONTH: "janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre",
    Sort.WEEKDAY: "lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche",
    Sort.UNIT: "minute minutes|heure heures|jour jours|semaine semaines|mois|trimestre trimestres"
    "|an ans année années|week_end weekend",
    Sort.NUMBER: "|un une|deux|trois|quatre|cinq|six|sept|huit|neuf|dix|onze|douze",
    Sort.ORDINAL: "|premier première|deuxième second|troisième|quatrième",
    Sort.FEW: "quelques plusieurs",
    Sort.DAY: "aujourdhui|hier|avant_hier",
    Sort.PART: "matin matinée|après_midi aprem|soir soirée|nuit",
    Sort.SEASON: "printemps|été|automne|hiver",
    Sort.LAST: "dernier dernière derniers dernières passé passée passés passées",
    Sort.THIS: "ce cet cette",
    Sort.AGO_FIRST: "il_y_a y_a",
    Sort.IN: "en au_mois_de au_cours_de pendant début fin mi au dans",
    Sort.ON: "pendant",
    Sort.SINCE: "depuis dès à_partir_de",
    Sort.AFTER: "après",
    Sort.BEFORE: "avant",
    Sort.UNTIL: "jusqu_à jusqu_au jusqu_en",
    Sort.BETWEEN: "entre",
    Sort.AND: "et",
    Sort.FROM: "de du",
    Sort.TO: "à au",
    Sort.VAGUE: "récemment dernièrement l_autre_jour il_y_a_peu ces_derniers_temps|à_l_époque autrefois jadis "
    "il_y_a_longtemps en_ce_temps_là",
    Sort.WHEN: "quand",
    Sort.FILLER: "le la les l d des",
}
_SPANISH: Mapping[Sort, str] = {
    Sort.MONTH: "enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre setiembre|octubre|noviembre|diciembre",
    Sort.WEEKDAY: "lunes|martes|miércoles|jueves|viernes|sábado|domingo",
    Sort.UNIT: "minuto minutos|hora horas|día días|semana semanas|mes meses|trimestre trimestres|año años"
    "|fin_de_semana finde",
    Sort.NUMBER: "|un una uno|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce",
    Sort.ORDINAL: "|primer primero|segundo|tercer tercero|cuarto",
    Sort.FEW: "unos unas algunos algunas varios varias un_par_de",
    Sort.DAY: "hoy|ayer|anteayer antes_de_ayer antier",
    Sort.PART: "mañana|tarde||noche",
    Sort.LAST_NIGHT: "anoche",
    Sort.SEASON: "primavera|verano|otoño|invierno",
    Sort.LAST: "pasado pasada pasados pasadas último última últimos últimas",
    Sort.THIS: "este esta estos estas",
    Sort.AGO: "atrás",
    Sort.AGO_FIRST: "hace",
    Sort.IN: "en durante a_principios_de a_finales_de a_mediados_de",
    Sort.ON: "el",
    Sort.SINCE: "desde a_partir_de",
    Sort.AFTER: "después_de tras",
    Sort.BEFORE: "antes_de",
    Sort.UNTIL: "hasta",
    Sort.BETWEEN: "entre",
    Sort.AND: "y",
    Sort.FROM: "de desde",
    Sort.TO: "a hasta",
    Sort.VAGUE: "recientemente últimamente hace_poco el_otro_día|en_aquel_entonces en_aquella_época antiguamente "
    "hace_mucho hace_mucho_tiempo hace_tiempo",
    Sort.WHEN: "cuándo",
    Sort.FILLER: "la los las del al por_la en_la de_la",
}
_RUSSIAN: Mapping[Sort, str] = {
    Sort.MONTH: "январь января январе|февраль февраля феврале|март марта марте|апрель апреля апреле|май мая мае"
    "|июнь июня июне|июль июля июле|август августа августе|сентябрь сентября сентябре|октябрь октября октябре"
    "|ноябрь ноября ноябре|декабрь декабря декабре",
    Sort.WEEKDAY: "понедельник понедельника|вторник вторника|среду среды|четверг четверга|пятницу пятницы"
    "|субботу субботы|воскресенье воскресенья",
    Sort.UNIT: "минуту минуты минут|час часа часов|день дня дней дни|неделю недели неделе недель неделя"
    "|месяц месяца месяце месяцев месяцы|квартал квартала квартале|год года году лет годы"
    "|выходные выходных",
    Sort.NUMBER: "|один одну одна|два две|три|четыре|пять|шесть|семь|восемь|девять|десять|одиннадцать|двенадцать",
    Sort.ORDINAL: "|первый первом первого|второй втором второго|третий третьем третьего|четвертый четвертом четвертого",
    Sort.FEW: "несколько пару",
    Sort.DAY: "сегодня|вчера|позавчера",
    Sort.PART: "утром утро утра|днем|вечером вечер|ночью ночь",
    Sort.SEASON: "весной весну весны|летом лето лета|осенью осень осени|зимой зиму зимы",
    Sort.LAST: "прошлый прошлой прошлом прошлого прошлую прошлое прошлым прошлые прошлых последний последнюю последние "
    "последних",
    Sort.THIS: "этот эта этой этом этого эту это этим эти",
    Sort.AGO: "назад",
    Sort.IN: "в во за в_начале в_конце в_середине в_течение",
    Sort.ON: "в во на",
    Sort.SINCE: "с со начиная_с",
    Sort.AFTER: "после",
    Sort.BEFORE: "до перед",
    Sort.UNTIL: "до по",
    Sort.BETWEEN: "между",
    Sort.AND: "и",
    Sort.FROM: "с со от",
    Sort.TO: "по до",
    Sort.VAGUE: "недавно на_днях в_последнее_время|тогда раньше в_те_времена давно когда_то",
    Sort.WHEN: "когда",
    Sort.FILLER: "г",
}
# Sorts whose groups between bars are numbered; the first group has this number.
_FIRST_NUMBER = {Sort.MONTH: 1}


def _language(name: str, table: Mapping[Sort, str], common: str, doubtful: str = "", foreign: str = "") -> Language:
    phrases: dict[tuple[str, ...], dict[Sort, int]] = {}
    for sort, groups in table.items():
        for number, group in enumerate(groups.split("|"), _FIRST_NUMBER.get(sort, 0)):
            for phrase in folded(group).split():
                phrases.setdefault(tuple(phrase.split("_")), {})[sort] = number
    return Language(
        name=name,
        phrases=phrases,
        longest=max(map(len, phrases)),
        common=frozenset(folded(common).split()),
        doubtful=frozenset(folded(doubtful).split()),
        foreign=frozenset(folded(foreign).split()),
    )


LANGUAGES = (
    _language(
        "english",
        _ENGLISH,
        "the of and is are was were what who where did does do has have we you i he she they it that about with",
        doubtful="may march mar spring fall",
    ),
    _language(
        "german",
        _GERMAN,
        "der die das und ist sind war waren was wer wo wie hat haben wir ihr ich er sie es nicht mit für über von",
    ),
    _language(
        "french",
        _FRENCH,
        "le la les et est sont était qui que quoi où a ont nous vous je il elle on pas avec pour sur dans des du dit",
        foreign="hier",
    ),
    _language(
        "spanish",
        _SPANISH,
        "el la los las y es son era quién qué dónde ha han nosotros yo él ella no con para sobre dijo se lo",
    ),
    _language("russian", _RUSSIAN, "и в не на что кто где как я мы вы он она они это был были сказал говорил про о"),
)
