// SPDX-License-Identifier: Apache-2.0

package app

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/disco-sim/disco/internal/graphdata"
	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/internal/submission"
	"github.com/disco-sim/disco/scenario"
	"github.com/urfave/cli/v2"
)

// What a graph: section takes from a database travels to machines that simulate a scenario as files beside it: of each
// section that points of a sweep have the answer, in parts, under a name that follows from the section. So no machine
// needs to reach the database, and all have the same data.

// graphFilesFlag names the folder with these files.
const graphFilesFlag = "graph-files"

// graphFolder is where they are put, below the scenario's folder.
const graphFolder = "graph-files"

// graphPartsMost is how many parts an answer has at most.
const graphPartsMost = (submission.AttachedMax + submission.FileMax - 1) / submission.FileMax

// graphFilesOption is a flag of run.
func graphFilesOption() cli.Flag {
	return &cli.StringFlag{Category: groupWhat, Name: graphFilesFlag, Hidden: true,
		Usage: "take what a graph: section asks for from files in `FOLDER`, in the place of a database"}
}

// graphPart is the name of a part of the answer to a section.
func graphPart(request []byte, part int) string {
	sum := sha256.Sum256(request)
	return hex.EncodeToString(sum[:16]) + "." + strconv.Itoa(part)
}

// addGraph adds the answer to a section to what is submitted.
func addGraph(s *submission.Submission, text []byte) error {
	data, err := graphdata.Open(text)
	if err != nil {
		return err
	}
	if slices.Contains(s.Files, graphFolder+"/"+graphPart(data.Asked, 0)) {
		return nil // another point asks for the same
	}
	if len(text) > submission.AttachedMax {
		return usage("%s: found %d bytes that the graph: section takes from the database, want at most %d, since they "+
			"travel to the machines with the scenario: fill fewer items or columns, or simulate it on one machine "+
			"(run)", s.File, len(text), submission.AttachedMax)
	}
	for part := 0; part == 0 || part*submission.FileMax < len(text); part++ {
		rest := text[part*submission.FileMax:]
		s.Files = append(s.Files, graphFolder+"/"+graphPart(data.Asked, part))
		s.Attached = append(s.Attached, rest[:min(len(rest), submission.FileMax)])
	}
	return nil
}

// graphFiles reads what addGraph has added, from a folder.
func graphFiles(dir string) *scenario.Files {
	return &scenario.Files{Graph: func(request []byte) (text []byte, err error) {
		for part := range graphPartsMost {
			one, err := infile.Read(filepath.Join(dir, graphPart(request, part)),
				infile.Kind{Name: "a part of a graph", BytesMax: submission.FileMax})
			if errors.Is(err, fs.ErrNotExist) && part > 0 {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("--%s: %w", graphFilesFlag, err)
			}
			text = append(text, one...)
		}
		return text, nil
	}}
}
