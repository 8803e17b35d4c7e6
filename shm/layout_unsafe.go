// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import "unsafe"

// The compiler checks here that the structs which mirror our layouts agree with
// the offsets that the code uses. Each pin is a pair of constants that would be
// negative, and so no uint, if the two differed in either direction.

const (
	_ = uint(unsafe.Offsetof(headerLayout{}.magic) - offsetMagic)
	_ = uint(offsetMagic - unsafe.Offsetof(headerLayout{}.magic))
	_ = uint(unsafe.Offsetof(headerLayout{}.version) - offsetVersion)
	_ = uint(offsetVersion - unsafe.Offsetof(headerLayout{}.version))
	_ = uint(unsafe.Offsetof(headerLayout{}.kind) - offsetKind)
	_ = uint(offsetKind - unsafe.Offsetof(headerLayout{}.kind))
	_ = uint(unsafe.Offsetof(headerLayout{}.order) - offsetOrder)
	_ = uint(offsetOrder - unsafe.Offsetof(headerLayout{}.order))
	_ = uint(unsafe.Offsetof(headerLayout{}.totalBytes) - offsetTotal)
	_ = uint(offsetTotal - unsafe.Offsetof(headerLayout{}.totalBytes))
	_ = uint(unsafe.Offsetof(headerLayout{}.bodyOffset) - offsetBody)
	_ = uint(offsetBody - unsafe.Offsetof(headerLayout{}.bodyOffset))
	_ = uint(unsafe.Offsetof(headerLayout{}.bodyBytes) - offsetBodySize)
	_ = uint(offsetBodySize - unsafe.Offsetof(headerLayout{}.bodyBytes))
	_ = uint(unsafe.Offsetof(headerLayout{}.id) - offsetID)
	_ = uint(offsetID - unsafe.Offsetof(headerLayout{}.id))
	_ = uint(unsafe.Offsetof(headerLayout{}.pages) - offsetPages)
	_ = uint(offsetPages - unsafe.Offsetof(headerLayout{}.pages))
	_ = uint(unsafe.Offsetof(headerLayout{}.reserved) - offsetReserved)
	_ = uint(offsetReserved - unsafe.Offsetof(headerLayout{}.reserved))
	_ = uint(unsafe.Offsetof(headerLayout{}.name) - offsetName)
	_ = uint(offsetName - unsafe.Offsetof(headerLayout{}.name))
	_ = uint(unsafe.Sizeof(headerLayout{}) - HeaderBytes)
	_ = uint(HeaderBytes - unsafe.Sizeof(headerLayout{}))
)

const (
	_ = uint(unsafe.Offsetof(doorbellLayout{}.state) - offsetState)
	_ = uint(offsetState - unsafe.Offsetof(doorbellLayout{}.state))
	_ = uint(unsafe.Sizeof(doorbellLayout{}) - DoorbellBytes)
	_ = uint(DoorbellBytes - unsafe.Sizeof(doorbellLayout{}))
)

const (
	_ = uint(unsafe.Offsetof(poolLayout{}.magic) - offsetPoolMagic)
	_ = uint(offsetPoolMagic - unsafe.Offsetof(poolLayout{}.magic))
	_ = uint(unsafe.Offsetof(poolLayout{}.version) - offsetPoolVersion)
	_ = uint(offsetPoolVersion - unsafe.Offsetof(poolLayout{}.version))
	_ = uint(unsafe.Offsetof(poolLayout{}.sizes) - offsetPoolSizes)
	_ = uint(offsetPoolSizes - unsafe.Offsetof(poolLayout{}.sizes))
	_ = uint(unsafe.Offsetof(poolLayout{}.table) - offsetPoolTable)
	_ = uint(offsetPoolTable - unsafe.Offsetof(poolLayout{}.table))
	_ = uint(unsafe.Sizeof(poolLayout{}) - PoolHeaderBytes)
	_ = uint(PoolHeaderBytes - unsafe.Sizeof(poolLayout{}))
)

const (
	_ = uint(unsafe.Offsetof(sizeLayout{}.payloadMax) - offsetSizePayload)
	_ = uint(offsetSizePayload - unsafe.Offsetof(sizeLayout{}.payloadMax))
	_ = uint(unsafe.Offsetof(sizeLayout{}.offset) - offsetSizeOffset)
	_ = uint(offsetSizeOffset - unsafe.Offsetof(sizeLayout{}.offset))
	_ = uint(unsafe.Offsetof(sizeLayout{}.stride) - offsetSizeStride)
	_ = uint(offsetSizeStride - unsafe.Offsetof(sizeLayout{}.stride))
	_ = uint(unsafe.Offsetof(sizeLayout{}.first) - offsetSizeFirst)
	_ = uint(offsetSizeFirst - unsafe.Offsetof(sizeLayout{}.first))
	_ = uint(unsafe.Offsetof(sizeLayout{}.count) - offsetSizeCount)
	_ = uint(offsetSizeCount - unsafe.Offsetof(sizeLayout{}.count))
	_ = uint(unsafe.Sizeof(sizeLayout{}) - sizeEntryBytes)
	_ = uint(sizeEntryBytes - unsafe.Sizeof(sizeLayout{}))
)

const (
	_ = uint(unsafe.Offsetof(blockLayout{}.seq) - offsetBlockSeq)
	_ = uint(offsetBlockSeq - unsafe.Offsetof(blockLayout{}.seq))
	_ = uint(unsafe.Offsetof(blockLayout{}.loan) - offsetBlockLoan)
	_ = uint(offsetBlockLoan - unsafe.Offsetof(blockLayout{}.loan))
	_ = uint(unsafe.Offsetof(blockLayout{}.number) - offsetBlockNumber)
	_ = uint(offsetBlockNumber - unsafe.Offsetof(blockLayout{}.number))
	_ = uint(unsafe.Sizeof(blockLayout{}) - BlockHeaderBytes)
	_ = uint(BlockHeaderBytes - unsafe.Sizeof(blockLayout{}))
)
