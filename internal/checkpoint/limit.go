// SPDX-License-Identifier: Apache-2.0

package checkpoint

import "fmt"

// TooLargeError is a checkpoint that would write more than the repository takes of one.
type TooLargeError struct {
	Where     string
	Size, Max int64 // bytes
}

// Error says what to do.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s: the checkpoint has %d bytes that aren't there yet, and one may write at most %d here: "+
		"keep checkpoints in a larger place, or allow more (--checkpoint-most)", e.Where, e.Size, e.Max)
}

// Limit has checkpoints that would write more than so many bytes be refused, with *TooLargeError, but for the ends of
// replications. It is called before anything is written.
func (r *Repo) Limit(bytes int64) { r.most = bytes }
