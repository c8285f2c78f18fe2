--[[ tede for LuaJIT: tensors as Lua objects, operators by their boxed calls.

    local tede = require "tede".use "operators.lua"
    local x = tede.tensor({2, 3}, {1, 2, 3, 4, 5, 6})
    print(tede.matmul(x, tede.t(x)), x + 1)

What is declared here is what every binding needs: a score of C's functions and the structs of <tede/dispatch.h> by which operators
are called and described. The operators themselves are in operators.lua, which generate.lua writes. Errors of the library are Lua's
errors; a tensor is released when Lua collects it. ]]
local ffi = require "ffi"

ffi.cdef [[
typedef struct td_tensor td_tensor;
typedef struct td_op td_op;
typedef struct td_optimizer td_optimizer;
typedef struct { int8_t type, index; } td_device;
typedef struct { int kind; union { int64_t i; uint64_t u; double d; }; double imag; } td_scalar;
typedef struct {
    uint8_t kind;
    int32_t count;
    union {
        td_tensor *tensor; td_tensor *const *tensors; int64_t integer; double number; td_scalar scalar; const int64_t *ints;
        const double *numbers; const bool *bools; const td_scalar *scalars; const char *string; td_device device; void *generator;
    };
} td_value;
typedef struct {
    const char *name;
    uint8_t kind;
    bool optional, keyword_only, is_out, is_mutable, has_default, is_updated, from_cpu;
    int8_t list_size;
    char alias;
    bool optional_items, word_default;
    td_value default_value;
} td_arg;
typedef struct {
    const char *name, *overload, *schema, *doc;
    const td_arg *arguments, *results;
    int16_t n_arguments, n_results;
    uint32_t flags;
    const char *alias_of, *space;
} td_op_info;
typedef struct { double lr, beta1, beta2, eps, weight_decay; bool amsgrad, maximize; } td_adam_options;

extern td_tensor *const TD_NONE;
const td_op      *td_op_find(const char *name);
const td_op      *td_op_at(int index);
int               td_op_count(void);
const td_op_info *td_op_describe(const td_op *op);
int               td_op_call(const td_op *op, const td_value *arguments, td_value *results);
const char       *td_error_message(void);
td_tensor        *td_tensor_new(int ndim, const int64_t *sizes, int dtype, td_device device);
td_tensor        *td_tensor_retain(td_tensor *x);
void              td_tensor_release(td_tensor *x);
void             *td_tensor_data(const td_tensor *x);
int64_t           td_tensor_numel(const td_tensor *x);
int               td_tensor_ndim(const td_tensor *x);
const int64_t    *td_tensor_sizes(const td_tensor *x);
int               td_tensor_item(td_tensor *x, td_scalar *value);
double            td_scalar_double(td_scalar s);
char             *td_tensor_str(td_tensor *x);
void              td_string_free(char *text);
void              td_manual_seed(uint64_t seed);
int               td_set_requires_grad(td_tensor *x, bool on);
bool              td_set_grad_enabled(bool on);
int               td_backward(int count, td_tensor *const *tensors, td_tensor *const *gradients, bool retain, bool create);
td_tensor        *td_grad(td_tensor *x);
td_optimizer     *td_adamw_new(int64_t n, td_tensor *const *parameters, const td_adam_options *options);
void              td_optimizer_release(td_optimizer *optimizer);
int               td_optimizer_step(td_optimizer *optimizer);
int               td_optimizer_zero_grad(td_optimizer *optimizer);
void             *dlopen(const char *path, int flags);
]]

local path = os.getenv("TEDE_LIB") or "libtede.so.0"
ffi.C.dlopen(path, 0x1002)                  -- RTLD_NOW | RTLD_NODELETE: Lua unloads what it loaded when it ends, and the library has threads
local C = ffi.load(path)
local tede = {C = C, ffi = ffi, none = C.TD_NONE, float32 = 11, float64 = 12, int64 = 5}
local Tensor = {}
local TENSOR, TENSORS, BOOL, INT, FLOAT, SCALAR, INTS, FLOATS, BOOLS, STRING, DTYPE = 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12

local function check(good)
    if not good then error(ffi.string(C.td_error_message()), 0) end
    return good
end

-- A Lua object of a reference that is ours.
local function wrap(pointer)
    check(pointer ~= nil)
    return setmetatable({pointer = ffi.gc(pointer, C.td_tensor_release)}, Tensor)
end

local function scalar(value, into)
    if type(value) == "boolean" then into.kind, into.i = 0, value and 1 or 0
    elseif value == math.floor(value) and math.abs(value) < 2 ^ 53 then into.kind, into.i = 1, value
    else into.kind, into.d = 2, value end
    return into
end

local function list(values, ctype, kept)
    local array = ffi.new(ctype .. "[?]", math.max(#values, 1), values)
    kept[#kept + 1] = array
    return array, #values
end

-- By td_value_kind: how a Lua value becomes a td_value; `kept` holds what that points to until the call is over.
local setters = {
    [TENSOR] = function(v, x) v.tensor = x.pointer end,
    [BOOL] = function(v, x) v.integer = x and 1 or 0 end,
    [INT] = function(v, x) v.integer = x end, [DTYPE] = function(v, x) v.integer = x end,
    [FLOAT] = function(v, x) v.number = x end,
    [SCALAR] = function(v, x) scalar(x, v.scalar) end,
    [STRING] = function(v, x, kept) kept[#kept + 1] = x; v.string = x end,
    [INTS] = function(v, x, kept) v.ints, v.count = list(type(x) == "number" and {x} or x, "int64_t", kept) end,
    [FLOATS] = function(v, x, kept) v.numbers, v.count = list(x, "double", kept) end,
    [BOOLS] = function(v, x, kept) v.bools, v.count = list(x, "bool", kept) end,
    [TENSORS] = function(v, x, kept)
        local pointers = {}
        for i, tensor in ipairs(x) do pointers[i] = tensor.pointer end
        v.tensors, v.count = list(pointers, "td_tensor *", kept)
    end,
}

--[[ Call an operator: its td_op, td_op_info, and the arguments by position, nil for defaults. What generate.lua writes ends here. ]]
function tede.call(op, info, ...)
    local values, results, kept = ffi.new("td_value[?]", math.max(info.n_arguments, 1)), ffi.new("td_value[?]", math.max(info.n_results, 1)), {}
    for i = 0, info.n_arguments - 1 do
        local argument, given = info.arguments[i], (select(i + 1, ...))
        if given ~= nil then
            local set = setters[argument.kind] or error(("%s: no Lua value for '%s'"):format(ffi.string(info.name), ffi.string(argument.name)), 0)
            values[i].kind = argument.kind
            set(values[i], given, kept)
        elseif argument.has_default then
            values[i] = argument.default_value
        elseif argument.optional and argument.kind == TENSOR then
            values[i].kind, values[i].tensor = TENSOR, tede.none
        elseif not argument.optional then
            error(("%s: argument '%s' is missing"):format(ffi.string(info.name), ffi.string(argument.name)), 0)
        end
    end
    check(C.td_op_call(op, values, results) == 0)
    local out = {}
    for i = 0, info.n_results - 1 do
        local kind = results[i].kind
        out[i + 1] = kind == TENSOR and wrap(results[i].tensor) or kind == BOOL and results[i].integer ~= 0 or
            kind == FLOAT and results[i].number or tonumber(results[i].integer)
    end
    return unpack(out)
end

-- Whether a Lua value can be such an argument.
local function fits(argument, given)
    local kind, is = argument.kind, type(given)
    if given == nil then return argument.has_default or argument.optional end
    if kind == TENSOR then return getmetatable(given) == Tensor end
    if kind == TENSORS then return is == "table" and getmetatable(given[1]) == Tensor end
    if kind == BOOL then return is == "boolean" end
    if kind == STRING then return is == "string" end
    if kind == INTS then return is == "table" and getmetatable(given) ~= Tensor or is == "number" and argument.list_size > 0 end
    if kind == FLOATS or kind == BOOLS then return is == "table" and getmetatable(given) ~= Tensor end
    return is == "number"
end

-- An operator as a function: the first of its overloads that the arguments fit.
local function define(name, overloads)
    local found = {}
    for i, full in ipairs(overloads) do
        local op = check(C.td_op_find(full) ~= nil) and C.td_op_find(full)
        found[i] = {op = op, info = C.td_op_describe(op)}
    end
    return function(...)
        for _, one in ipairs(found) do
            local good = select("#", ...) <= one.info.n_arguments
            for i = 0, one.info.n_arguments - 1 do
                good = good and fits(one.info.arguments[i], (select(i + 1, ...)))
            end
            if good then return tede.call(one.op, one.info, ...) end
        end
        local schemas = {}
        for i, one in ipairs(found) do schemas[i] = ffi.string(one.info.schema) end
        error(("%s: no overload takes these arguments; there are\n  %s"):format(name, table.concat(schemas, "\n  ")), 0)
    end
end

-- Take the operators of the file that generate.lua wrote.
function tede.use(path)
    for name, operator in pairs(assert(loadfile(path))(define)) do tede[name] = tede[name] or operator end
    return tede
end

-- A tensor of a table of numbers, row after row.
function tede.tensor(sizes, numbers, dtype)
    dtype = dtype or tede.float32
    local x = wrap(C.td_tensor_new(#sizes, ffi.new("int64_t[?]", math.max(#sizes, 1), sizes), dtype, ffi.new("td_device", 0, -1)))
    local data = ffi.cast(dtype == tede.int64 and "int64_t *" or dtype == tede.float64 and "double *" or "float *", C.td_tensor_data(x.pointer))
    for i, number in ipairs(numbers) do data[i - 1] = number end
    return x
end

function tede.no_grad(f, ...)
    local before = C.td_set_grad_enabled(false)
    local ok, result = pcall(f, ...)
    C.td_set_grad_enabled(before)
    if not ok then error(result, 0) end
    return result
end

function tede.manual_seed(seed) C.td_manual_seed(seed) end

-- AdamW over a list of tensors.
function tede.AdamW(parameters, lr)
    local pointers = ffi.new("td_tensor *[?]", #parameters)
    for i, p in ipairs(parameters) do pointers[i - 1] = p.pointer end
    local options = ffi.new("td_adam_options", lr or 1e-3, 0.9, 0.999, 1e-8, 1e-2, false, false)
    local pointer = C.td_adamw_new(#parameters, pointers, options)
    check(pointer ~= nil)
    ffi.gc(pointer, C.td_optimizer_release)
    return {step = function() check(C.td_optimizer_step(pointer) == 0) end, zero_grad = function() check(C.td_optimizer_zero_grad(pointer) == 0) end}
end

-- Methods that are no operators, then the operators, as x:exp().
local methods = {}

function methods:size()
    local sizes = {}
    for i = 1, C.td_tensor_ndim(self.pointer) do sizes[i] = tonumber(C.td_tensor_sizes(self.pointer)[i - 1]) end
    return sizes
end

function methods:item()
    local value = ffi.new("td_scalar")
    check(C.td_tensor_item(self.pointer, value) == 0)
    return C.td_scalar_double(value)
end

function methods:requires_grad(on)
    check(C.td_set_requires_grad(self.pointer, on ~= false) == 0)
    return self
end

function methods:backward()
    check(C.td_backward(1, ffi.new("td_tensor *[1]", self.pointer), nil, false, false) == 0)
end

function methods:grad()
    local pointer = C.td_grad(self.pointer)             -- lent
    return pointer ~= nil and wrap(C.td_tensor_retain(pointer)) or nil
end

function Tensor.__index(_, name) return methods[name] or tede[name] end
function Tensor.__tostring(x)
    local text = check(C.td_tensor_str(x.pointer))
    local copied = ffi.string(text)
    C.td_string_free(text)
    return copied
end
for event, name in pairs {add = "add", sub = "sub", mul = "mul", div = "div", pow = "pow"} do
    Tensor["__" .. event] = function(a, b)
        return tede[name](type(a) == "number" and tede.tensor({}, {a}) or a, b)
    end
end
function Tensor.__unm(x) return tede.neg(x) end

return tede
