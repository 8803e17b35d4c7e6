// SPDX-License-Identifier: Apache-2.0

package bridge

// fifo is bytes that wait. Its memory is taken when it is first needed, and kept.
type fifo struct {
	buf  []byte
	head int
}

func (f *fifo) len() int { return len(f.buf) - f.head }

// bytes are all that wait.
func (f *fifo) bytes() []byte { return f.buf[f.head:] }

// add makes room for n bytes behind the others.
func (f *fifo) add(n int) []byte {
	f.fit(n)
	at := len(f.buf)
	f.buf = append(f.buf, make([]byte, n)...)
	return f.buf[at:]
}

// append puts bytes behind the others.
func (f *fifo) append(b []byte) {
	f.fit(len(b))
	f.buf = append(f.buf, b...)
}

// fit moves what waits to the front, if n more have no room behind it.
func (f *fifo) fit(n int) {
	if f.head > 0 && len(f.buf)+n > cap(f.buf) && f.head >= f.len() { // moving costs no more than taking did
		f.buf = f.buf[:copy(f.buf, f.buf[f.head:])]
		f.head = 0
	}
}

// drop takes the first n bytes away.
func (f *fifo) drop(n int) {
	if f.head += n; f.head == len(f.buf) {
		f.clear()
	}
}

func (f *fifo) clear() { f.buf, f.head = f.buf[:0], 0 }
