/* tede/tede.h: all of the public API.  Each header can also be included alone. */
#ifndef TEDE_TEDE_H
#define TEDE_TEDE_H
#include <tede/autocast.h>
#include <tede/autograd.h>
#include <tede/base.h>
#include <tede/counter.h>
#include <tede/dispatch.h>
#include <tede/formula.h>
#include <tede/gguf.h>
#include <tede/group.h>
#include <tede/library.h>
#include <tede/list.h>
#include <tede/memory.h>
#include <tede/modes.h>
#include <tede/npy.h>
#include <tede/ops.h>
#include <tede/optim.h>
#include <tede/random.h>
#include <tede/region.h>
#include <tede/replay.h>
#include <tede/safetensors.h>
#include <tede/spec.h>
#include <tede/store.h>
#include <tede/tensor.h>
#include <tede/trace.h>
#include <tede/zip.h>
#endif
