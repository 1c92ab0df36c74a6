/* What Cython cannot say: prefetch, page advice, branch weights. */
#ifndef MAINSPRING_NATIVE_H
#define MAINSPRING_NATIVE_H

#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#define ms_likely(x) __builtin_expect(!!(x), 1)
#define ms_unlikely(x) __builtin_expect(!!(x), 0)

/* GCC takes a function that does nothing but prefetch for one without effect and drops its calls: seen, it
 * cost 200 ns a run. The empty volatile asm keeps them. */
static inline void ms_prefetch(const void *at)
{
    __builtin_prefetch(at, 0);
    __asm__ volatile("" : : "r"(at));
}

static inline void ms_prefetch_write(const void *at)
{
    __builtin_prefetch(at, 1);
    __asm__ volatile("" : : "r"(at));
}

/* A block so aligned that the kernel can back it with huge pages.
 * The advice is a wish: where it is refused the block works all the same. */
static inline void *ms_block(size_t bytes, size_t alignment)
{
    void *block = NULL;
    if (posix_memalign(&block, alignment, bytes) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    (void)madvise(block, bytes, MADV_HUGEPAGE);
#endif
    return block;
}

#endif
