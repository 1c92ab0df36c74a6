"""Whether a shard is right, yes or no. Only where it is not does audit.pxd look for what is wrong.

    with the shard's lock held:
        right = prove(shard)        # changes nothing; False as well where there is no memory to prove it in

Right is what audit.pxd says. The proof turns the question round, so that it reads memory in a row: not "does
every entry belong to a record?" but "does every record stand where it says, and are there no other entries?"
The lists are walked by chunk, to note for each chunk the list it belongs to; then every record, in order,
looks up its own entry and its own place in the index. What each of them finds is found by no other, so equal
counts leave room for nothing else.
"""

from mainspring.wheel.shard cimport Shard


cdef bint prove(const Shard* shard) noexcept nogil
