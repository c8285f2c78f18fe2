"""Short names of dtypes, for logs."""
import tede

dtype_abbrs = {getattr(tede, long): short for long, short in (
    ("bfloat16", "bf16"), ("float64", "f64"), ("float32", "f32"), ("float16", "f16"), ("complex64", "c64"), ("complex128", "c128"),
    ("int8", "i8"), ("int16", "i16"), ("int32", "i32"), ("int64", "i64"), ("bool", "b8"), ("uint8", "u8"), ("uint16", "u16"),
    ("uint32", "u32"), ("uint64", "u64")) if hasattr(tede, long)}
