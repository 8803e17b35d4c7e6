// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/sim/dist"
)

// printed runs a model with --print and returns what standard error has.
func printed(t *testing.T, what string, build func(b *Builder)) (status int, errs string) {
	t.Helper()
	type none struct{}
	var out, failed bytes.Buffer
	status = app.Run([]string{"m", "run", "--transport", "inproc", "--print", what}, strings.NewReader(""), &out,
		&failed, Kind("m", func(b *Builder, _ none) { b.Horizon(20); build(b) }))
	return status, failed.String()
}

// inOrder holds a text against lines that it must have, in this order.
func inOrder(t *testing.T, text string, lines ...string) {
	t.Helper()
	rest := text
	for _, line := range lines {
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Errorf("%q isn't in, or not in its place:\n%s", line, text)
			return
		}
		rest = after
	}
}

// What processes do and wait for appears in words: of a server, a signal, a container, a store, a gate, an interrupt.
func TestPrintedWords(t *testing.T) {
	_, errs := printed(t, "node=till", func(b *Builder) {
		b.Node("till", func(n *Node) {
			agents := n.Server("agents", 1)
			tank := n.Container("tank", 10, 0)
			box := StoreOf[int](n, "box", 1)
			var bell Signal
			n.Go(func(p *Process) {
				agents.Acquire(p)
				p.Hold(3)
				agents.Release(p)
				tank.Get(p, 4)
				box.Get(p)
				bell.Wait(p)
				_, _ = p.HoldOrInterrupt(5)
			})
			n.Go(func(p *Process) {
				agents.Acquire(p)
				agents.Release(p)
				_ = agents.AcquireWithin(p, math.Inf(1))
				p.Hold(1)
				agents.Release(p)
				tank.Put(p, 5)
				box.Put(p, 7)
				p.Hold(1)
				bell.Send()
			})
			n.Start(func(c *Context) {
				c.Go(func(p *Process) { p.Hold(8) })
				c.After(0.5, func(c *Context) { agents.Use(c, 2, nil) })
			})
		})
	})
	inOrder(t, errs, "0 s  till/main\n", "process 1 of sim.TestPrintedWords", "begins\n",
		"gets agents: 1 of 1 in use\n", " holds for 3 s, until 3 s\n", "process 2 of", "begins\n", "process 2 of",
		" waits for agents: 1 of 1 in use, 1 in the queue\n",
		"a request waits for agents: 1 of 1 in use, 2 in the queue\n", "3 s  till/main\n", "process 1 of", " goes on\n",
		"gives back agents", "waits to get 4 from tank, which has 0\n", "a request gets agents for 2 s, until 5 s\n",
		"5 s  till/main\n", "a request gives back agents", "process 2 of", " gets agents", "6 s  till/main\n",
		"tank: +5, 5 in it\n", "tank: -4, 1 in it\n", "box: one in, 1 in it\n", "box: one out, 0 in it\n",
		"waits for a signal\n", "7 s  till/main\n", "is resumed\n", "holds for 5 s, until 12 s or an interrupt\n",
		"waited until the time was up\n", "process 1 of", " ends\n")
	if strings.Contains(errs, "0xc0") || strings.Contains(errs, "an action") {
		t.Errorf("an address, or something without a name:\n%s", errs)
	}
}

func TestPrintedInterrupt(t *testing.T) {
	_, errs := printed(t, "node=till,from=1", func(b *Builder) {
		b.Node("till", func(n *Node) {
			agents := n.Server("agents", 1, PreemptResume)
			var first *Process
			n.Start(func(c *Context) {
				first = c.Go(func(p *Process) {
					agents.Acquire(p, Priority(2))
					p.HoldOrInterrupt(10)
					agents.Release(p)
					p.Hold(5)
					p.Suspend()
				})
				c.After(1, func(c *Context) {
					agents.Use(c, 1, nil, Priority(1))
				})
				c.After(2, func(*Context) { first.Interrupt("wake up") })
			})
		})
	})
	inOrder(t, errs, "1 s  till/main\n", "process 1 of", "loses agents\n", "is interrupted, cause: sim.Preempted\n",
		"2 s  till/main\n", "will be interrupted at its next wait, cause: string\n")
}

// Of a run that fails, what happened before is shown, the failing activation too; on several workers as on one.
func TestPrintedFailure(t *testing.T) {
	for name, fail := range map[string]func(c *Context){
		"an error": func(c *Context) { c.Fail(errors.New("no more paper")) },
		"a panic":  func(*Context) { panic("no more paper") },
		"a misuse": func(c *Context) { c.After(-1, nil) },
	} {
		for _, workers := range []string{"1", "2"} {
			build := func(b *Builder, _ struct{}) {
				b.Horizon(20)
				b.Nodes("till", 2, func(n *Node) {
					n.Go(func(p *Process) {
						p.Hold(3)
						if n.Index() == 0 {
							p.Hold(1)
							fail(p.Context)
						}
					})
				})
			}
			var out, failed bytes.Buffer
			status := app.Run([]string{"m", "run", "--transport", "inproc", "--print", "node=till-0",
				"--workers", workers, "--partition", "block"}, strings.NewReader(""), &out, &failed, Kind("m", build))
			if status != app.ExitFailed {
				t.Errorf("%s: exit status %d", name, status)
			}
			inOrder(t, failed.String(), "0 s  till-0/main\n", "holds for 3 s, until 3 s\n", "3 s  till-0/main\n",
				"holds for 1 s, until 4 s\n", "4 s  till-0/main\n", "process 1 of", " goes on\n", "m: ")
		}
	}
}

// Of several replications of which one fails, each is shown up to where the run ended, and the failing one to its end.
func TestPrintedFailureOfOneReplication(t *testing.T) {
	build := func(b *Builder, _ struct{}) {
		b.Horizon(20)
		b.Node("till", func(n *Node) {
			n.Every(dist.Constant(3), func(c *Context) {
				c.Printf("tick of replication %d", c.Replication())
				if c.Replication() == 1 && c.Now() == 6 {
					c.Fail(errors.New("no more paper"))
				}
			})
		})
	}
	for _, workers := range []string{"1", "2"} {
		var out, failed bytes.Buffer
		status := app.Run([]string{"m", "run", "--transport", "inproc", "--print", "node=till", "--replications", "3",
			"--workers", workers}, strings.NewReader(""), &out, &failed, Kind("m", build))
		if status != app.ExitFailed {
			t.Errorf("%s workers: exit status %d", workers, status)
		}
		inOrder(t, failed.String(), "3 s  till/main\n", "tick of replication 1\n", "6 s  till/main\n",
			"tick of replication 1\n", "m: ", "no more paper")
	}
}

// A build function that fails ends the command before anything is simulated, with the status of mistakes in input.
func TestBuildFails(t *testing.T) {
	for want, build := range map[string]func(b *Builder){
		`nodes "till", -1 of them`: func(b *Builder) { b.Nodes("till", -1, func(*Node) {}) },
		`there are nodes "till" already`: func(b *Builder) {
			b.Node("till", func(*Node) {})
			b.Node("till", func(*Node) {})
		},
		"LinkTo(nobody): there is no such": func(b *Builder) {
			b.Node("till", func(n *Node) { LinkTo[int](n, "nobody", dist.Constant(1)) })
		},
	} {
		if status, errs := printed(t, "node=till", build); status != app.ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("exit status %d, want %q:\n%s", status, want, errs)
		}
	}
}

// --print has its words in a file where that is wanted, and nothing on standard error.
func TestPrintedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "what.txt")
	build := func(b *Builder) {
		b.Node("till", func(n *Node) {
			n.Every(dist.Constant(1), func(c *Context) { c.Printf("tick at %v", c.Now()) })
		})
	}
	status, errs := printed(t, "node=till,until=3,file="+path, build)
	text, err := os.ReadFile(path)
	if err != nil || status != 0 || errs != "" {
		t.Fatalf("exit status %d, %v\n%s", status, err, errs)
	}
	inOrder(t, string(text), "1 s  till/main\n", "    tick at 1\n", "    tick at 3\n")
	for what, want := range map[string]string{
		"node=till,file=":                        "want the name of a file",
		"node=till,file=-":                       "want the name of a file",
		"node=till,file=/nowhere/x":              "--print: ",
		"node=till,file=" + filepath.Dir(path):   "--print: ",
		"node=till,into=x":                       "want node=NAME",
		"node=till,file=" + path + ",from=never": "found from=never",
	} {
		if status, errs := printed(t, what, build); status != app.ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit status %d, want %q:\n%s", what, status, want, errs)
		}
	}
}

// A part that is placed twice on a node has names of its own, in results and messages; parts may have parts.
func TestNodeParts(t *testing.T) {
	desk := func(n *Node) {
		agents := n.Server("agents", 1)
		agents.Breakdowns(dist.Constant(5), dist.Constant(1), Resume)
		tank := n.Container("tank", 10, 1)
		served := n.Counter("served")
		n.In("back", func(n *Node) { n.Tally("wait") })
		n.Go(func(p *Process) {
			agents.Serve(p, 1)
			tank.Put(p, 1)
			served.Inc()
		})
	}
	var after *Server
	m, err := New("m", func(b *Builder) {
		b.Horizon(10)
		b.Node("office", func(n *Node) {
			n.In("left", desk)
			n.In("right", desk)
			n.In("middle", func(n *Node) { after = n.Server("agents", 1, PreemptResume) })
			after.Breakdowns(dist.Constant(5), dist.Constant(1), Restart) // declared where the part has ended
			n.Counter("served")
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"left.agents.wait", "right.agents.wait", "left.agents.preempted", "left.agents.down",
		"middle.agents.down", "left.tank.amount", "left.back.wait", "right.back.wait", "left.served", "served"} {
		if _, ok := m.schema.byName["office/"+want]; !ok {
			t.Errorf("%s isn't among %v", want, m.schema.byName)
		}
	}
	if after.Name() != "middle.agents" {
		t.Errorf("the server's name is %s", after.Name())
	}
	for want, setup := range map[string]func(n *Node){
		`there is a statistic "left.agents.utilisation" already`: func(n *Node) {
			n.In("left", desk)
			n.In("left", desk)
		},
		`In("a/b"): want a name without '/'`: func(n *Node) { n.In("a/b", desk) },
		`In(""): want a name without '/'`:    func(n *Node) { n.In("", desk) },
	} {
		_, err := New("m", func(b *Builder) { b.Horizon(1); b.Node("office", setup) })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %s", err, want)
		}
	}
}

// A node that always finds more to do at one epoch ends the run, and is named with what it does.
func TestEndlessEpoch(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(n *Node)
		want  []string
	}{
		{"a process", func(n *Node) {
			n.Go(func(p *Process) {
				p.Hold(2)
				for {
					p.Hold(0)
				}
			})
		}, []string{"till, at 2 s: ", "resume process sim.TestEndlessEpoch", "journal_test.go:"}},
		{"timers", func(n *Node) {
			var ping, pong func(c *Context)
			ping = func(c *Context) { c.After(0, pong) }
			pong = func(c *Context) { c.After(1e-300, ping) }
			n.Start(func(c *Context) { c.After(1, ping) })
		}, []string{"till, at 1 s: ", "sim.TestEndlessEpoch", "; sim.TestEndlessEpoch"}},
		{"a server", func(n *Node) {
			agents := n.Server("agents", 1)
			var again func(c *Context)
			again = func(c *Context) { agents.Use(c, 0, again) }
			n.Start(again)
		}, []string{"till, at 0 s: ", "a request to agents"}},
	} {
		status, errs := printed(t, "node=till", func(b *Builder) {
			b.EpochLimit(1000)
			b.Node("till", c.setup)
		})
		want := append(c.want, "1000 things were done at this one time", "epoch_limit: 10000")
		for _, part := range want {
			if status != app.ExitFailed || !strings.Contains(errs, part) {
				t.Errorf("%s: exit status %d, want %q:\n%.3000s", c.name, status, part, errs[max(0, len(errs)-3000):])
			}
		}
	}
}

// As much as the limit is allowed, at every epoch.
func TestEpochLimit(t *testing.T) {
	for limit, want := range map[string]int{"100": app.ExitOK, "99": app.ExitFailed, "0": app.ExitUsage} {
		build := func(b *Builder, _ struct{}) {
			b.Horizon(5)
			b.EpochLimit(1) // the flag says otherwise
			b.Node("till", func(n *Node) {
				n.Every(dist.Constant(1), func(c *Context) {
					for range 99 {
						c.After(0, func(*Context) {})
					}
				})
			})
		}
		var out, failed bytes.Buffer
		status := app.Run([]string{"m", "run", "--transport", "inproc", "--epoch_limit", limit}, strings.NewReader(""),
			&out, &failed, Kind("m", build))
		if status != want {
			t.Errorf("limit %s: exit status %d, want %d:\n%s", limit, status, want, failed.String())
		}
	}
}
