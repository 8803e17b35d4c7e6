// SPDX-License-Identifier: Apache-2.0

package fleet

import "context"

// Piece reads one piece of an experiment, with its version. One that waits and never began is the zero value.
func (c *Client) Piece(ctx context.Context, id string, p PieceID) (at PieceAt, err error) {
	if err := checkID(id); err != nil {
		return at, err
	}
	at.Version, err = c.get(ctx, pieceKey(id, p), &at.Piece)
	if err == nil && at.Attempt > 0 {
		if wrong := at.Piece.check(); wrong != nil {
			err = &MalformedError{pieceKey(id, p), wrong}
		}
	}
	return at, err
}
