"""Shared things by number. registry.pxd says what it promises."""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from mainspring.wheel.memory cimport NO_MEMORY, memory_give, memory_take


cdef int64_t registry_add(Registry* registry, void* thing) noexcept nogil:
    cdef uint32_t number = registry.count
    cdef uint32_t block = number // REGISTRY_BLOCK
    if block == REGISTRY_BLOCKS:
        return NO_MEMORY
    if registry.blocks[block] == NULL:
        registry.blocks[block] = <void**>memory_take(REGISTRY_BLOCK * sizeof(void*))
        if registry.blocks[block] == NULL:
            return NO_MEMORY
    registry.blocks[block][number % REGISTRY_BLOCK] = thing
    registry.count = number + 1
    return number


cdef void registry_close(Registry* registry) noexcept nogil:
    cdef int block
    for block in range(REGISTRY_BLOCKS):
        memory_give(registry.blocks[block])
    memset(registry, 0, sizeof(Registry))
