# Stops inside `x + y`, in the loop itself, and shows the frames on the way there: gdb -x tools/gdb/add.gdb --args python ...
set pagination off
set breakpoint pending on
set print thread-events off
break td_pointwise_run
run
# The loop of the instruction set that this machine has.
rbreak ^add_tensor_f32_v[234]$
continue
backtrace 14
