--[[ Writes operators.lua: a Lua function for each of tede's operators, from what td_op_info says of it.

    luajit generate.lua > operators.lua

A function's comment is the operator's documentation, its arguments those of the schema in their order; nil stands for a default.
Overloads of a name are tried by the kinds of what is given, in their order: add(x, 1) is add.Scalar where add.Tensor doesn't fit. ]]
local tede = require "tede"
local ffi, C = tede.ffi, tede.C
local SHOWN = 1 + 2 + 4 + 8 + 16 + 32             -- TD_OP_FUNCTION, METHOD, NN, LINALG, FFT, SPECIAL
local OUT, DEPRECATED = 512, 4096
local reserved = {["and"] = 1, ["or"] = 1, ["not"] = 1, ["end"] = 1, ["repeat"] = 1, ["function"] = 1, ["in"] = 1, ["local"] = 1}
local bit = require "bit"

local function words(info)
    local names = {}
    for i = 0, info.n_arguments - 1 do
        local name = ffi.string(info.arguments[i].name)
        names[#names + 1] = reserved[name] and name .. "_" or name
    end
    return table.concat(names, ", ")
end

local families, order = {}, {}
for i = 0, C.td_op_count() - 1 do
    local op = C.td_op_at(i)
    local info = op ~= nil and C.td_op_describe(op) or nil
    if info and info.space == nil and bit.band(info.flags, SHOWN) ~= 0 and bit.band(info.flags, OUT + DEPRECATED) == 0 then
        local name = ffi.string(info.name)
        if not families[name] then
            families[name] = {}
            order[#order + 1] = name
        end
        table.insert(families[name], info)
    end
end
table.sort(order)

print("-- Written by generate.lua; don't change it.")
print("local define, operators = ..., {}")
for _, name in ipairs(order) do
    local names = {}
    print()
    for _, info in ipairs(families[name]) do
        local overload = info.overload ~= nil and ffi.string(info.overload) or ""
        local full = overload == "" and name or name .. "." .. overload
        names[#names + 1] = ("%q"):format("aten::" .. full)
        print(("-- %s(%s)"):format(full, words(info)))
    end
    if families[name][1].doc ~= nil then
        for line in ffi.string(families[name][1].doc):gmatch("[^\n]+") do print("--   " .. line) end
    end
    print(("operators[%q] = define(%q, {%s})"):format(name, name, table.concat(names, ", ")))
end
print("\nreturn operators")
