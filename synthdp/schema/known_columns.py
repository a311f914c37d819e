"""Columns that everybody knows: months, ages, ISO codes.  Public knowledge, from no table, that a schema adopts by name."""

from __future__ import annotations

import difflib
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from synthdp.errors import SchemaError
from synthdp.schema.columns import Boolean, Categorical, Column, Continuous, Integer, Ordinal


def _words(text: str) -> tuple[str, ...]:
    """Return the words of a text; long constants are easier to read as one text."""
    return tuple(text.split())


COUNTRIES: dict[str, str] = {
    pair[:2]: pair[2:]
    for pair in _words(
        """
    ADAND AEARE AFAFG AGATG AIAIA ALALB AMARM AOAGO AQATA ARARG ASASM ATAUT AUAUS AWABW AXALA AZAZE BABIH BBBRB
    BDBGD BEBEL BFBFA BGBGR BHBHR BIBDI BJBEN BLBLM BMBMU BNBRN BOBOL BQBES BRBRA BSBHS BTBTN BVBVT BWBWA BYBLR
    BZBLZ CACAN CCCCK CDCOD CFCAF CGCOG CHCHE CICIV CKCOK CLCHL CMCMR CNCHN COCOL CRCRI CUCUB CVCPV CWCUW CXCXR
    CYCYP CZCZE DEDEU DJDJI DKDNK DMDMA DODOM DZDZA ECECU EEEST EGEGY EHESH ERERI ESESP ETETH FIFIN FJFJI FKFLK
    FMFSM FOFRO FRFRA GAGAB GBGBR GDGRD GEGEO GFGUF GGGGY GHGHA GIGIB GLGRL GMGMB GNGIN GPGLP GQGNQ GRGRC GSSGS
    GTGTM GUGUM GWGNB GYGUY HKHKG HMHMD HNHND HRHRV HTHTI HUHUN IDIDN IEIRL ILISR IMIMN ININD IOIOT IQIRQ IRIRN
    ISISL ITITA JEJEY JMJAM JOJOR JPJPN KEKEN KGKGZ KHKHM KIKIR KMCOM KNKNA KPPRK KRKOR KWKWT KYCYM KZKAZ LALAO
    LBLBN LCLCA LILIE LKLKA LRLBR LSLSO LTLTU LULUX LVLVA LYLBY MAMAR MCMCO MDMDA MEMNE MFMAF MGMDG MHMHL MKMKD
    MLMLI MMMMR MNMNG MOMAC MPMNP MQMTQ MRMRT MSMSR MTMLT MUMUS MVMDV MWMWI MXMEX MYMYS MZMOZ NANAM NCNCL NENER
    NFNFK NGNGA NINIC NLNLD NONOR NPNPL NRNRU NUNIU NZNZL OMOMN PAPAN PEPER PFPYF PGPNG PHPHL PKPAK PLPOL PMSPM
    PNPCN PRPRI PSPSE PTPRT PWPLW PYPRY QAQAT REREU ROROU RSSRB RURUS RWRWA SASAU SBSLB SCSYC SDSDN SESWE SGSGP
    SHSHN SISVN SJSJM SKSVK SLSLE SMSMR SNSEN SOSOM SRSUR SSSSD STSTP SVSLV SXSXM SYSYR SZSWZ TCTCA TDTCD TFATF
    TGTGO THTHA TJTJK TKTKL TLTLS TMTKM TNTUN TOTON TRTUR TTTTO TVTUV TWTWN TZTZA UAUKR UGUGA UMUMI USUSA UYURY
    UZUZB VAVAT VCVCT VEVEN VGVGB VIVIR VNVNM VUVUT WFWLF WSWSM YEYEM YTMYT ZAZAF ZMZMB ZWZWE
        """
    )
}
"""ISO 3166-1: the two-letter code of each country, and its three-letter code."""

CURRENCIES: tuple[str, ...] = _words(
    """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP CNY
    COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR
    ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK
    MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF
    SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU
    UZS VED VES VND VUV WST XAD XAF XCD XCG XOF XPF YER ZAR ZMW ZWG
    """
)
"""ISO 4217 codes of currencies in use; without metals, funds, units of account and test codes."""

LANGUAGES: tuple[str, ...] = _words(
    """
    aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en
    eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja
    jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb
    nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq
    sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
    """
)
"""ISO 639-1: two-letter codes of languages."""

US_STATES: dict[str, str] = {
    code: name.replace("_", " ")
    for code, name in (
        pair.split("=")
        for pair in _words(
            """
    AK=Alaska AL=Alabama AR=Arkansas AZ=Arizona CA=California CO=Colorado CT=Connecticut DC=District_of_Columbia
    DE=Delaware FL=Florida GA=Georgia HI=Hawaii IA=Iowa ID=Idaho IL=Illinois IN=Indiana KS=Kansas KY=Kentucky
    LA=Louisiana MA=Massachusetts MD=Maryland ME=Maine MI=Michigan MN=Minnesota MO=Missouri MS=Mississippi
    MT=Montana NC=North_Carolina ND=North_Dakota NE=Nebraska NH=New_Hampshire NJ=New_Jersey NM=New_Mexico NV=Nevada
    NY=New_York OH=Ohio OK=Oklahoma OR=Oregon PA=Pennsylvania RI=Rhode_Island SC=South_Carolina SD=South_Dakota
    TN=Tennessee TX=Texas UT=Utah VA=Virginia VT=Vermont WA=Washington WI=Wisconsin WV=West_Virginia WY=Wyoming
            """
        )
    )
}
"""Postal codes and names of the 50 US states and the District of Columbia."""

ICD10_CHAPTERS: tuple[str, ...] = _words(
    "I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI XVII XVIII XIX XX XXI XXII"
)
"""Roman numbers of the chapters of ICD-10, the international classification of diseases."""

MONTHS: tuple[str, ...] = _words(
    "January February March April May June July August September October November December"
)
"""English names of the months, in order."""

WEEKDAYS: tuple[str, ...] = _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
"""English names of the days of the week, from Monday."""


@dataclass(frozen=True, slots=True)
class KnownColumn:
    """A column declaration that is common knowledge, such as months, so that no table need be looked at for it.

    Parameters
    ----------
    column
        Declaration of the values that it may hold.
    source
        What makes the declaration common knowledge, in a few words, such as "a week has 168 hours".
    names
        A regular expression of last words of the names that such columns have; the empty text for none.
    """

    column: Column
    source: str
    names: str = ""


_CALENDAR, _CLOCK, _EARTH = "the calendar", "the clock", "degrees on the globe"
"""Texts that name the source of known columns on receipts."""

_WORDS, _WEEKDAY = "the words of a yes-or-no question", "weekday|wday|dow|day_of_week"
"""The source of yes-or-no columns on receipts, and a regular expression of names of weekday columns."""

KNOWN: dict[str, KnownColumn] = {
    "age": KnownColumn(Integer(0, 125), "years of age; the longest life on record had 122", "age"),
    "adult_age": KnownColumn(Integer(18, 125), "years of age, from the age of majority"),
    "hours_per_week": KnownColumn(Integer(0, 168), "a week has 168 hours", "hours_per_week"),
    "hours_per_day": KnownColumn(Continuous(0, 24), "a day has 24 hours", "hours_per_day"),
    "year": KnownColumn(Integer(1900, 2100), "calendar years of two centuries"),
    "quarter": KnownColumn(Integer(1, 4), _CALENDAR, "quarter|qtr"),
    "month": KnownColumn(Integer(1, 12), _CALENDAR, "month|mon|mth"),
    "month_name": KnownColumn(Ordinal(MONTHS), _CALENDAR, "month|month_name"),
    "month_abbreviation": KnownColumn(Ordinal([name[:3] for name in MONTHS]), _CALENDAR, "month|mon|mth"),
    "weekday_from_0": KnownColumn(Integer(0, 6), "days of a week, counted from 0", _WEEKDAY),
    "weekday": KnownColumn(Integer(1, 7), "days of a week, as ISO 8601 counts them", _WEEKDAY),
    "weekday_name": KnownColumn(Ordinal(WEEKDAYS), _CALENDAR, f"{_WEEKDAY}|day"),
    "weekday_abbreviation": KnownColumn(Ordinal([name[:3] for name in WEEKDAYS]), _CALENDAR, f"{_WEEKDAY}|day"),
    "week": KnownColumn(Integer(1, 53), "weeks of a year, ISO 8601", "week|woy|week_of_year"),
    "day": KnownColumn(Integer(1, 31), "days of a month", "day|mday|dom|day_of_month"),
    "day_of_year": KnownColumn(Integer(1, 366), _CALENDAR, "yday|doy|day_of_year"),
    "hour": KnownColumn(Integer(0, 23), _CLOCK, "hour|hr"),
    "minute": KnownColumn(Integer(0, 59), _CLOCK, "minute"),
    "second": KnownColumn(Integer(0, 59), _CLOCK, "second"),
    "latitude": KnownColumn(Continuous(-90, 90), _EARTH, "lat|latitude"),
    "longitude": KnownColumn(Continuous(-180, 180), _EARTH, "lon|lng|long|longitude"),
    "bearing": KnownColumn(Continuous(0, 360), "degrees of a circle", "bearing|azimuth|heading"),
    "percentage": KnownColumn(Continuous(0, 100), "parts of a hundred", "pct|perc|percent|percentage"),
    "share": KnownColumn(Continuous(0, 1), "parts of a whole", "share|probability|proportion|fraction"),
    "truth": KnownColumn(Boolean(), "true or false"),
    "yes_no": KnownColumn(Categorical(["no", "yes"]), _WORDS),
    "yes_no_title": KnownColumn(Categorical(["No", "Yes"]), _WORDS),
    "yes_no_letter": KnownColumn(Categorical(["N", "Y"]), _WORDS),
    "sex": KnownColumn(Categorical(["female", "male"]), "sex as forms ask for it", "sex|gender"),
    "sex_title": KnownColumn(Categorical(["Female", "Male"]), "sex as forms ask for it", "sex|gender"),
    "sex_letter": KnownColumn(Categorical(["F", "M"]), "sex as forms ask for it", "sex|gender"),
    "sex_code": KnownColumn(
        Categorical([0, 1, 2, 9]), "ISO/IEC 5218: not known, male, female, not applicable", "sex|gender"
    ),
    "country": KnownColumn(
        Categorical(list(COUNTRIES)), "ISO 3166-1, two letters", "country|country_code|nationality|citizenship"
    ),
    "country_3": KnownColumn(
        Categorical(list(COUNTRIES.values())),
        "ISO 3166-1, three letters",
        "country|country_code|nationality|citizenship",
    ),
    "currency": KnownColumn(Categorical(CURRENCIES), "ISO 4217", "currency|ccy|currency_code"),
    "language": KnownColumn(Categorical(LANGUAGES), "ISO 639-1", "language|lang|language_code"),
    "us_state": KnownColumn(Categorical(list(US_STATES)), "codes of the US postal service", "state|state_code"),
    "us_state_name": KnownColumn(
        Categorical(list(US_STATES.values())), "the 50 US states and the District of Columbia", "state|state_name"
    ),
    "icd10_chapter": KnownColumn(
        Ordinal(ICD10_CHAPTERS), "ICD-10, by chapter", "icd|icd10|icd_10|icd10_chapter|chapter"
    ),
    "icd10_letter": KnownColumn(
        Ordinal(list(string.ascii_uppercase)), "ICD-10, first letter of a code", "icd|icd10|icd_10|icd10_letter"
    ),
    "blood_group": KnownColumn(Categorical(["A", "AB", "B", "O"]), "the ABO system", "blood_group"),
    "blood_type": KnownColumn(
        Categorical([f"{group}{sign}" for group in ("A", "AB", "B", "O") for sign in "+-"]),
        "the ABO and rhesus systems",
        "blood_type|blood_group",
    ),
    "asa_class": KnownColumn(Integer(1, 6), "ASA physical status classification", "asa|asa_class|asa_score"),
    "apgar_score": KnownColumn(Integer(0, 10), "Apgar score", "apgar|apgar_score|apgar_\\d+"),
    "glasgow_coma_scale": KnownColumn(Integer(3, 15), "Glasgow coma scale", "gcs|glasgow_coma_scale"),
    "pain_scale": KnownColumn(Integer(0, 10), "numeric rating scale of pain", "pain|pain_scale|pain_score"),
    "likert_5": KnownColumn(Integer(1, 5), "five-point scale", "likert|likert_5"),
    "likert_7": KnownColumn(Integer(1, 7), "seven-point scale", "likert|likert_7"),
}
"""The known columns by name; of several that suit a column's name, the more usual come first."""

SOURCE = "known column {name!r}: {source}"
"""The source text of an adopted known column, for the receipt."""


def known_column(name: str, /, **settings: Any) -> Column:
    """Return the declaration of a column that is common knowledge, with its source; see `Schema.known`.

    Raises
    ------
    SchemaError
        If there is none of this name, or it has no such setting.
    """
    found = KNOWN.get(name) if isinstance(name, str) else None
    if found is None:
        near = difflib.get_close_matches(str(name), KNOWN, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise SchemaError(
            f"known ({name!r}) must be the name of a known column ({hint}`Schema.known()` lists the names)"
        )
    strange = sorted(set(settings) - {field.name for field in fields(found.column)})
    if strange:
        kind = type(found.column).__name__
        raise SchemaError(
            f"the known column {name!r} is of type {kind}, which has no setting {strange[0]!r}: leave "
            f"{strange[0]!r} out"
        )
    return replace(found.column, **{"source": SOURCE.format(name=name, source=found.source)} | settings)


def suggested(name: str) -> Iterator[str]:
    """Yield names of known columns that suit a column's name by its last words, so that a draft can propose them.

    Examples
    --------
    >>> list(suggested("dep_hour")), list(suggested("start lng")), list(suggested("monthly"))
    (['hour'], ['longitude'], [])
    """
    words = re.sub(r"[\W_]+", "_", re.sub(r"([a-z])([A-Z])", r"\1_\2", name)).casefold().strip("_")
    words = f"{words}_percent" if name.rstrip().endswith("%") else words
    for known, one in KNOWN.items():
        last = re.search(f"(^|_)({one.names})$", words) if one.names else None
        if last and "per_" not in words[: last.start(2)].removesuffix("percent"):  # not 5 cigarettes per day
            yield known
