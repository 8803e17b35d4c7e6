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
	_ = uint(unsafe.Offsetof(poolLayout{}.classes) - offsetPoolClasses)
	_ = uint(offsetPoolClasses - unsafe.Offsetof(poolLayout{}.classes))
	_ = uint(unsafe.Offsetof(poolLayout{}.table) - offsetPoolTable)
	_ = uint(offsetPoolTable - unsafe.Offsetof(poolLayout{}.table))
	_ = uint(unsafe.Sizeof(poolLayout{}) - PoolHeaderBytes)
	_ = uint(PoolHeaderBytes - unsafe.Sizeof(poolLayout{}))
)

const (
	_ = uint(unsafe.Offsetof(classLayout{}.payloadMax) - offsetClassPayload)
	_ = uint(offsetClassPayload - unsafe.Offsetof(classLayout{}.payloadMax))
	_ = uint(unsafe.Offsetof(classLayout{}.offset) - offsetClassOffset)
	_ = uint(offsetClassOffset - unsafe.Offsetof(classLayout{}.offset))
	_ = uint(unsafe.Offsetof(classLayout{}.stride) - offsetClassStride)
	_ = uint(offsetClassStride - unsafe.Offsetof(classLayout{}.stride))
	_ = uint(unsafe.Offsetof(classLayout{}.first) - offsetClassFirst)
	_ = uint(offsetClassFirst - unsafe.Offsetof(classLayout{}.first))
	_ = uint(unsafe.Offsetof(classLayout{}.count) - offsetClassCount)
	_ = uint(offsetClassCount - unsafe.Offsetof(classLayout{}.count))
	_ = uint(unsafe.Sizeof(classLayout{}) - classBytes)
	_ = uint(classBytes - unsafe.Sizeof(classLayout{}))
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
