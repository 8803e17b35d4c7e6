// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import "unsafe"

// plainWord is a word for ordinary loads and stores.
func plainWord(mem []byte, offset int) *uint64 {
	return (*uint64)(unsafe.Pointer(wordAt64(mem, offset)))
}

// inside reports whether part lies within whole.
func inside(part, whole []byte) bool {
	p, w := uintptr(unsafe.Pointer(unsafe.SliceData(part))), uintptr(unsafe.Pointer(unsafe.SliceData(whole)))
	return p >= w && p+uintptr(len(part)) <= w+uintptr(len(whole))
}
