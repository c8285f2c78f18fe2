/* The library that plug-ins offer for products and convolutions on the CPU. */
#include <tede/cpu_library.h>
#include <tede/modes.h>

static const td_cpu_library *in_use;

int td_set_cpu_library(const td_cpu_library *library)
{
    if (library && (library->size < sizeof *library || !library->product || !library->convolution))
        return td_error(TD_E_VALUE, "td_cpu_library: its size member must be sizeof(td_cpu_library), and both functions must be there");
    __atomic_store_n(&in_use, library, __ATOMIC_RELEASE);
    return 0;
}

const td_cpu_library *td_cpu_library_in_use(void)
{
    const td_cpu_library *library = __atomic_load_n(&in_use, __ATOMIC_ACQUIRE);
    return library && !td_batch_invariant() ? library : NULL;
}
