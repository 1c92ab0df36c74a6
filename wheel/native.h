/* What Cython cannot say: prefetch, page advice, branch weights, sixteen bytes at once. */
#ifndef MAINSPRING_NATIVE_H
#define MAINSPRING_NATIVE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "digits are written as words whose first character is the lowest byte"
#endif

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

/* A bit for each of sixteen bytes that has the value, the first byte's lowest. */
static inline uint32_t ms_equal_bytes(const void *sixteen, uint8_t value)
{
#ifdef __SSE2__
    __m128i bytes = _mm_loadu_si128((const __m128i *)sixteen);
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)value)));
#else
    uint32_t bits = 0;
    for (int i = 0; i < 16; i++)
        bits |= (uint32_t)(((const uint8_t *)sixteen)[i] == value) << i;
    return bits;
#endif
}

static inline uint32_t ms_lowest_bit(uint32_t bits)
{
    return (uint32_t)__builtin_ctz(bits);
}

/* For the sanitizers each page is an allocation of its own, and so is each key with its payload: inside of a
 * larger block they would see nothing. A page that was given back may not be touched. */
#ifdef MAINSPRING_SANITIZE
#include <sanitizer/asan_interface.h>
#define MS_BLOCK_BYTES 16384
#define MS_SMALL_UNITS 0
#define ms_forbid(at, bytes) ASAN_POISON_MEMORY_REGION(at, bytes)
#define ms_allow(at, bytes) ASAN_UNPOISON_MEMORY_REGION(at, bytes)
#else
#define MS_BLOCK_BYTES 2097152
#define MS_SMALL_UNITS 512
#define ms_forbid(at, bytes) ((void)(at))
#define ms_allow(at, bytes) ((void)(at))
#endif

/* A block so aligned that the kernel can back it with huge pages.
 * The advice is a wish: where it is refused the block works all the same. */
static inline void *ms_block(size_t bytes, size_t alignment)
{
    void *block = NULL;
    if (posix_memalign(&block, alignment, bytes) != 0)
        return NULL;
#if defined(MADV_HUGEPAGE) && !defined(MAINSPRING_SANITIZE)
    (void)madvise(block, bytes, MADV_HUGEPAGE);
#endif
    return block;
}

#endif
