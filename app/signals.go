package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// impatience is how long a run that was ended at once may take to clean up before
// the process ends without it. What is left then ends by itself: workers end when
// their launcher does, and nothing of the run has a name.
const impatience = 2 * time.Second

// watchSignals turns Ctrl-C, SIGTERM and the end of the terminal into the ends of a
// run: the first closes stop, the second ends ctx, and a third, or a clean-up that
// takes too long, ends the process. done ends the watch.
func watchSignals(stderr io.Writer, name string) (ctx context.Context, stop <-chan struct{}, done func()) {
	ctx, cancel := context.WithCancel(context.Background())
	stopping := make(chan struct{})
	signals := make(chan os.Signal, 4)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		// nohup, and shells for what they run in the background, set some of them to be
		// ignored; then they are not meant for us.
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	over := make(chan struct{})
	go func() {
		var late <-chan time.Time
		for count := 0; ; {
			select {
			case <-over:
				return
			case <-late:
				os.Exit(ExitFailed)
			case s := <-signals:
				count++
				switch count {
				case 1:
					fmt.Fprintf(stderr, "%s: %v: ending the run; once more ends it at once, without results\n", name, s)
					close(stopping)
				case 2:
					cancel()
					late = time.After(impatience)
				default:
					os.Exit(ExitFailed)
				}
			}
		}
	}()
	return ctx, stopping, func() {
		signal.Stop(signals)
		close(over)
		cancel()
	}
}
