"""Write the hand-made schemas of two public tables, as a data owner would: from their documentation, not from the rows."""

from pathlib import Path

from synthdp import Categorical, Continuous, Integer, Schema

HERE = Path(__file__).parent / "schemas"

HOME_EQUITY = Schema(
    {
        "BAD": Categorical([0, 1]),
        "LOAN": Integer(1000, 100_000),
        "MORTDUE": Continuous(0, 400_000, nullable=True),
        "VALUE": Continuous(5_000, 900_000, nullable=True),
        "REASON": Categorical(["DebtCon", "HomeImp"], nullable=True),
        "JOB": Categorical(["Mgr", "Office", "Other", "ProfExe", "Sales", "Self"], nullable=True),
        "YOJ": Continuous(0, 50, nullable=True),
        "DEROG": Integer(0, 10, nullable=True),
        "DELINQ": Integer(0, 15, nullable=True),
        "CLAGE": Continuous(0, 1200, nullable=True),
        "NINQ": Integer(0, 20, nullable=True),
        "CLNO": Integer(0, 80, nullable=True),
        "DEBTINC": Continuous(0, 210, nullable=True),
    }
)

PARKINSONS = Schema(
    {
        "age": Integer(30, 90),
        "sex": Categorical([0, 1]),
        "test_time": Continuous(-10, 220),
        "motor_UPDRS": Continuous(0, 108),
        "total_UPDRS": Continuous(0, 176),
        "Jitter(%)": Continuous(0, 0.1),
        "Jitter(Abs)": Continuous(0, 0.0005),
        "Jitter:RAP": Continuous(0, 0.06),
        "Jitter:PPQ5": Continuous(0, 0.07),
        "Jitter:DDP": Continuous(0, 0.18),
        "Shimmer": Continuous(0, 0.3),
        "Shimmer(dB)": Continuous(0, 2.5),
        "Shimmer:APQ3": Continuous(0, 0.17),
        "Shimmer:APQ5": Continuous(0, 0.18),
        "Shimmer:APQ11": Continuous(0, 0.3),
        "Shimmer:DDA": Continuous(0, 0.5),
        "NHR": Continuous(0, 0.8),
        "HNR": Continuous(0, 40),
        "RPDE": Continuous(0, 1),
        "DFA": Continuous(0.5, 1),
        "PPE": Continuous(0, 1),
    }
)

for name, schema in {"hmeq": HOME_EQUITY, "parkinsons": PARKINSONS}.items():
    schema.write(HERE / f"{name}.schema.json")
    print(f"{name}.schema.json: {len(schema)} columns")
