// SPDX-License-Identifier: Apache-2.0

// Package parquetfile writes Apache Arrow records as Parquet files, and reads such files as records: flat tables of
// numbers, text and yes or no.
//
// Guarantee: memory is bounded by a group of rows, or a page of each column, however long a file is, and nothing is
// allocated for each row. Bytes that aren't a Parquet file, or are damaged, are an error that says where; they never
// end the process. Pages are looked at before they are decoded: one has at most 256 MiB and 16,777,216 values.
//
//	w, err := parquetfile.NewWriter(file, edges.Schema())
//	err = w.Write(edges)
//	err = w.Close()
//
// It works through parquet-go (Apache-2.0), which makes a program 13 MB larger; Arrow's own reader and writer make it
// 30 to 48 MB larger.
package parquetfile
