--[[ Train a small network, in Lua: which of three spiral arms does a point of the plane lie on? As examples/c/train_mlp.c.

    luajit generate.lua > operators.lua && luajit train_mlp.lua ]]
local tede = require "tede".use(arg[1] or "operators.lua")

local ARMS, HIDDEN, POINTS, STEPS = 3, 64, 600, 300

local function spirals(n)
    local points, arms, noise, along = {}, {}, tede.randn({n, 2}), tede.rand({n})
    local off, place = tede.ffi.cast("float *", tede.C.td_tensor_data(noise.pointer)), tede.ffi.cast("float *", tede.C.td_tensor_data(along.pointer))
    for i = 0, n - 1 do
        local arm, radius = i % ARMS, 0.05 + place[i]
        local angle = 2 * math.pi * arm / ARMS + 7.5 * radius
        points[2 * i + 1] = radius * math.cos(angle) + 0.02 * off[2 * i]
        points[2 * i + 2] = radius * math.sin(angle) + 0.02 * off[2 * i + 1]
        arms[i + 1] = arm
    end
    return tede.tensor({n, 2}, points), tede.tensor({n}, arms, tede.int64)
end

local parameters, widths = {}, {2, HIDDEN, HIDDEN, ARMS}
tede.manual_seed(1)
for layer = 1, #widths - 1 do
    parameters[#parameters + 1] = (tede.randn({widths[layer + 1], widths[layer]}) / math.sqrt(widths[layer])):requires_grad()
    parameters[#parameters + 1] = tede.zeros({widths[layer + 1]}):requires_grad()
end

local function network(x)
    for layer = 1, #parameters, 2 do
        x = tede.linear(x, parameters[layer], parameters[layer + 1])
        if layer < #parameters - 1 then x = x:tanh() end
    end
    return x
end

local function accuracy(points, arms)
    return tede.no_grad(function()
        local right = network(points):argmax(1):eq(arms)
        return 100 * right:sum():item() / #arms:size() / arms:size()[1]
    end)
end

local points, arms = spirals(POINTS)
local optimizer = tede.AdamW(parameters, 1e-2)
for step = 1, STEPS do
    local loss = tede.cross_entropy_loss(network(points), arms)
    optimizer.zero_grad()
    loss:backward()
    optimizer.step()
    if step == 1 or step % 100 == 0 then
        print(("step %3d: loss %.4f, accuracy %.1f %%"):format(step, loss:item(), accuracy(points, arms)))
        collectgarbage()            -- Lua sees a tensor as a few bytes; its elements are freed when it is collected
    end
end
print(("fresh points: accuracy %.1f %%"):format(accuracy(spirals(POINTS))))
