// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"fmt"
	"io"
)

// A chunk of this class isn't of records: it is a blob, which others write to the file beside the trace, or instead.
const blobClass = 1 << 30

// BlobMax bounds the bytes of a blob.
const BlobMax = 64 << 20

// AppendBlob appends what stands in front of a blob's bytes; EndBlob fills in how many there are behind it.
func AppendBlob(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, blobClass)
	return binary.LittleEndian.AppendUint32(dst, 0)
}

// EndBlob ends a blob that is all that follows what AppendBlob has appended to an empty slice: 1 to BlobMax bytes.
func EndBlob(b []byte) { binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-chunkHeader)) }

func checkBlob(off int64, n int, size int64) error {
	if n == 0 || n > BlobMax || off+int64(n) > size {
		return fmt.Errorf("%w: chunk at byte %d of %d is a blob of %d bytes, want 1 to %d that fit", ErrCorrupt,
			off-chunkHeader, size, n, BlobMax)
	}
	return nil
}

// EachBlob calls yield for each blob in the size bytes of r, in the order of the file, with where its bytes are.
func EachBlob(r io.ReaderAt, size int64, yield func(at int64, bytes int) error) error {
	var head [chunkHeader]byte
	for off := int64(0); off < size; {
		if _, err := r.ReadAt(head[:], off); err != nil {
			return fmt.Errorf("%w: chunk at byte %d of %d: %w", ErrCorrupt, off, size, err)
		}
		class, n := binary.LittleEndian.Uint32(head[:]), int(binary.LittleEndian.Uint32(head[4:]))
		off += chunkHeader
		if class == blobClass {
			err := checkBlob(off, n, size)
			if err == nil {
				err = yield(off, n)
			}
			if err != nil {
				return err
			}
		}
		off += int64(n)
	}
	return nil
}
