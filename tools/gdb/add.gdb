# Stops inside `x + y`, in the loop itself, and shows the frames on the way there: gdb -x tools/gdb/add.gdb --args python ...
set pagination off
set breakpoint pending on
set print thread-events off
break td_pointwise_run
run
backtrace 12
