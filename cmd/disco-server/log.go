// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// quiet keeps etcd from writing while it is being stopped, which it takes for a string of errors.
func (o *options) quiet() { o.level.SetLevel(zapcore.PanicLevel) }

// logs sends etcd's log to standard error, and makes what etcd can't go on from one line and exit code 2: its own
// way is a stack.
func (o *options) logs(c *embed.Config) error {
	level, err := zapcore.PanicLevel, error(nil)
	if o.logLevel != "none" {
		level, err = zapcore.ParseLevel(o.logLevel)
	}
	if err != nil || level > zapcore.PanicLevel {
		return fmt.Errorf("--log-level %q: write debug, info, warn, error or none", o.logLevel)
	}
	o.level = zap.NewAtomicLevelAt(level)
	form := zap.NewProductionEncoderConfig()
	form.EncodeTime = zapcore.ISO8601TimeEncoder
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(form), zapcore.Lock(os.Stderr), o.level)
	lg := zap.New(core, zap.WithFatalHook(fatal{o}), zap.WithPanicHook(fatal{o}))
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(lg)
	c.LogLevel = level.String()
	return nil
}

// fatal ends the process with what etcd's log says last.
type fatal struct{ o *options }

// OnWrite is called with the last entry.
func (f fatal) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	text, hint, code := entry.Message, "", 2
	for _, field := range fields {
		if err, ok := field.Interface.(error); ok {
			text += ": " + err.Error()
		}
	}
	if strings.Contains(text, syscall.ENOSPC.Error()) {
		hint, code = ": the disk is full; make room and start it again, what was acknowledged is kept", 1
	}
	fmt.Fprintf(os.Stderr, "disco-server: --data %s: %s%s\n", f.o.data, text, hint)
	os.Exit(code)
}
