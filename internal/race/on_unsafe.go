//go:build race

package race

import (
	"runtime"
	"unsafe"
)

// Enabled is true in a build with -race.
const Enabled = true

// Acquire notes that what went before every ReleaseMerge on the same word comes
// before what this goroutine does next.
func Acquire[T uint32 | uint64](word *T) { runtime.RaceAcquire(unsafe.Pointer(word)) }

// ReleaseMerge notes that what this goroutine has done comes before what follows a
// later Acquire on the same word, beside everything noted on it earlier.
func ReleaseMerge[T uint32 | uint64](word *T) { runtime.RaceReleaseMerge(unsafe.Pointer(word)) }
