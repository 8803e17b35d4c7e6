// SPDX-License-Identifier: Apache-2.0

package leaktest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// MainHalves is Main for packages whose tests wait for minutes, for processes that they start: two processes run them
// at the same time, one those whose names match half, the other one the rest. Both print behind their end. One
// process runs all where flags say more than go test does by itself, such as -run.
func MainHalves(m *testing.M, half string, keep ...string) {
	flag.Parse()
	if !plain() {
		Main(m, keep...)
	}
	status, err := halves(os.Args, half, flag.Lookup("test.testlogfile").Value.String(), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "leaktest:", err)
		status = 1
	}
	os.Exit(status)
}

// plain reports whether tests are chosen, and written about, as go test does it by itself.
func plain() bool {
	is := flag.NArg() == 0
	flag.Visit(func(f *flag.Flag) {
		is = is && slices.Contains([]string{"test.count", "test.fullpath", "test.paniconexit0", "test.parallel",
			"test.short", "test.testlogfile", "test.timeout", "test.v"}, f.Name)
	})
	return is
}

// logHead begins a file in which a test process notes which files and variables it has read: Go keeps a result until
// one of them changes.
const logHead = "# test log\n"

// halves runs the command twice, with what matches and with the rest, writes to out what both have printed, and makes
// one file of both their logs, where one is wanted.
func halves(command []string, half, log string, out *os.File) (status int, err error) {
	here, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "disco-halves")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var printed [2]bytes.Buffer
	var cmds [2]*exec.Cmd
	for i, choice := range []string{"-test.run=", "-test.skip="} {
		args := append(slices.Clone(command[1:]), choice+half)
		if log != "" {
			args = append(args, "-test.testlogfile="+filepath.Join(dir, fmt.Sprint(i)))
		}
		cmd := exec.Command(command[0], args...)
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &printed[i], &printed[i], leftMax
		if err := cmd.Start(); err != nil {
			return 0, errors.Join(err, end(cmds[:i]))
		}
		cmds[i] = cmd
	}
	read := logHead
	for i, cmd := range cmds {
		failed := cmd.Wait()
		if _, err := out.Write(printed[i].Bytes()); err != nil {
			return 0, errors.Join(err, end(cmds[i+1:]))
		}
		if failed != nil {
			said := "" // what failed has said so itself, where it ended as tests do
			if cmd.ProcessState.ExitCode() != 1 {
				said = "leaktest: " // it counts as if something was left: all is tested again
			}
			fmt.Fprintf(out, "%sof the two processes of this package's tests one ended with %v\n", said, failed)
			status = 1
		}
		if log == "" || failed != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return 0, errors.Join(err, end(cmds[i+1:]))
		}
		read += "chdir " + here + "\n" + strings.TrimPrefix(string(text), logHead)
	}
	if log != "" && status == 0 {
		err = os.WriteFile(log, []byte(read), 0o666)
	}
	return status, err
}

// end ends what was started.
func end(cmds []*exec.Cmd) (err error) {
	for _, cmd := range cmds {
		err = errors.Join(err, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
	}
	return err
}
