"""Write tests/c/promotion_table.h: what torch.promote_types gives for every pair of our dtypes.

    python tools/promotion_table.py

It needs PyTorch; the table is committed, so that the test doesn't.
"""
from pathlib import Path

import torch

NAMES = "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128".split()
SHORT = "BOOL U8 I8 I16 I32 I64 U16 U32 U64 F16 BF16 F32 F64 C64 C128".split()


def promoted(a, b):
    try:
        result = torch.promote_types(getattr(torch, a), getattr(torch, b))
    except RuntimeError:
        return "DTYPE_NONE"
    return SHORT[NAMES.index(str(result).removeprefix("torch."))]


def main():
    rows = []
    for a in NAMES:
        cells = ["TD_" + promoted(a, b) for b in NAMES]
        rows.append(f"    {{{', '.join(cells[:8])},\n     {', '.join(cells[8:])}}},")
    text = f"""/* torch.promote_types of PyTorch {torch.__version__.split('+')[0]}, by tools/promotion_table.py. */
static const signed char promotion_table[TD_DTYPE_A][TD_DTYPE_A] = {{
{chr(10).join(rows)}
}};
"""
    path = Path(__file__).resolve().parents[1] / "tests/c/promotion_table.h"
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
