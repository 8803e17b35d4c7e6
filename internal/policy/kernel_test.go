// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// kernelPackages are the packages that may make system calls, start and signal processes, and take descriptors
// apart, each with its reason. All others can be tested without a kernel that plays along.
var kernelPackages = map[string]string{
	"shm":                         "segments, mappings, doorbells, processors",
	"ipc":                         "the meeting: who the peer is, descriptors over a socket, the lock on a name",
	"internal/bridge/stream":      "connections that an agent hands over, and options of TCP",
	"external/command":            "programs that models ask",
	"internal/cputime":            "the processor time of a process",
	"internal/workerproc":         "worker processes, their descriptors and signals",
	"internal/ipctest":            "processes that send and receive, and are killed",
	"internal/agents":             "agents as processes, which it ends",
	"internal/demo":               "itself in a network namespace, and programs in others",
	"internal/forward":            "sleeps of less than the runtime's millisecond",
	"internal/storeserver":        "servers of metadata stores, which tests kill and stop",
	"fleet/executor/local":        "runs as processes of their own, which it ends, and the lock on a folder",
	"fleet/executor/remote":       "commands that reach other machines, and the lock on a host's folder",
	"fleet/executor/executortest": "the same, and what a run comes to without it",
	"experiments":                 "the program that checks what is submitted, and the lock of a key that is saved",
	"group":                       "the agent's process, which its supervisor starts and watches",
	"internal/outfile":            "files without a name",
	"internal/selfprofile":        "the socket at which a process gives profiles of itself",
	"internal/answers":            "files that may be pipes",
	"internal/checkpoint":         "the lock on a directory, and files that may be pipes",
	"internal/child":              "the socket to the process that joins the machines, and descriptors over it",
	"internal/leaktest":           "the two processes of a package's tests",
	"internal/launch":             "the limit of open files, and which descriptors a worker gets",
	"internal/launch/launchtest":  "a model that kills, stops and starts processes on demand",
	"perf/bench":                  "the limits of the machine: bare futexes, pipes, processes",
	"perf/peers":                  "other ways between processes",
	"internal/pty":                "pseudo terminals",
	"internal/fullscreen":         "waiting for keys",
	"perf/chaos":                  "takes the kernel away from a run",
	"perf/saving":                 "runs that are measured from outside",
	"perf/scale":                  "processes that are measured from outside",
}

// kernelImports lead to system calls whatever is called of them.
var kernelImports = []string{"golang.org/x/sys/", "os/exec", "plugin"}

// kernelNames are the names of other packages that do, by package.
var kernelNames = map[string][]string{
	"os": {"StartProcess", "FindProcess", "ProcAttr", "Process", "ProcessState", "NewFile", "Pipe"},
}

// A signal or an error number is a name and calls nothing. (syscall.Exec, Exit and so on have small letters.)
var constantName = regexp.MustCompile(`^(SIG[A-Z0-9]+|E[A-Z0-9]+|Signal|Errno)$`)

// An instruction that enters the kernel, in an assembler file of amd64 or arm64.
var kernelInstruction = regexp.MustCompile(`(?m)^\s*(SYSCALL|SVC|SYSENTER|INT)\b`)

// kernelRoads lists what in a file leads to a system call.
func kernelRoads(f file) (roads []string) {
	for p, pos := range imports(f) {
		if slices.ContainsFunc(kernelImports, func(k string) bool { return covers(k, p) }) {
			roads = append(roads, fmt.Sprintf("%s: import of %s", pos, p))
		}
	}
	names := importNames(f)
	for name, p := range names {
		if name == "." {
			roads = append(roads, fmt.Sprintf("%s: import of %s without a name, which hides calls", f.path, p))
		}
	}
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:linkname ") {
				roads = append(roads, fmt.Sprintf("%s: go:linkname", f.fset.Position(c.Pos())))
			}
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, _ := s.X.(*ast.Ident)
		from := ""
		if x != nil {
			from = names[x.Name]
		}
		road := s.Sel.Name == "SyscallConn" ||
			from == "syscall" && !constantName.MatchString(s.Sel.Name) ||
			slices.Contains(kernelNames[from], s.Sel.Name)
		if road {
			roads = append(roads, fmt.Sprintf("%s: %s", f.fset.Position(s.Pos()), s.Sel.Name))
		}
		return true
	})
	return roads
}

// checkKernel finds system calls outside of the packages that may make them, and packages that may and don't. Tests
// may make them.
func checkKernel(t *tree) (broken findings) {
	used := map[string]bool{}
	add := func(pkg, file string, roads []string) {
		used[pkg] = used[pkg] || len(roads) > 0
		if _, ok := t.kernel[pkg]; ok {
			return
		}
		for _, road := range roads {
			broken.add(file, "%s: a road to system calls, which have homes: see kernelPackages", road)
		}
	}
	for _, f := range t.files {
		if !f.test {
			add(f.pkg, f.path, kernelRoads(f))
		}
	}
	for name, text := range t.others {
		if path.Ext(name) == ".s" && kernelInstruction.MatchString(text) {
			add(path.Dir(name), name, []string{name + ": an instruction that enters the kernel"})
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(t.kernel)) {
		if t.kernel[pkg] == "" {
			broken.add(pkg, "kernelPackages: %s has no reason", pkg)
		}
		if !used[pkg] {
			broken.add(pkg, "kernelPackages: %s may make system calls, and doesn't, or doesn't exist", pkg)
		}
	}
	return broken
}

// checkPure finds what pure packages may not import, or start. "go" in a list stands for the start of a goroutine.
func checkPure(t *tree) (broken findings) {
	used := map[string]bool{}
	for _, f := range t.files {
		above := f.pkg[:strings.LastIndex(f.pkg, "/")+1]
		used[f.pkg], used[above] = true, true
		banned := slices.Concat(t.pure[f.pkg], t.pure[above])
		if f.test || banned == nil {
			continue
		}
		for p, pos := range imports(f) {
			if slices.Contains(banned, p) {
				broken.add(f.path, "%s: %s may not import %s: what it does depends only on what it is given",
					pos, f.pkg, p)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok && slices.Contains(banned, "go") {
				broken.add(f.path, "%s: %s starts no goroutine", f.fset.Position(g.Pos()), f.pkg)
			}
			return true
		})
	}
	for _, pkg := range slices.Sorted(maps.Keys(t.pure)) {
		if !used[pkg] {
			broken.add(pkg, "pure: there is no package %s", pkg)
		}
	}
	return broken
}

// checkUnsafe: unsafe stands only in files named *_unsafe.go, so that it can be found.
func checkUnsafe(t *tree) (broken findings) {
	for _, f := range t.files {
		if pos, ok := imports(f)["unsafe"]; ok && !f.test && !strings.HasSuffix(f.path, "_unsafe.go") {
			broken.add(f.path, "%s: unsafe stands only in files named *_unsafe.go", pos)
		}
	}
	return broken
}
