// SPDX-License-Identifier: Apache-2.0

//go:build !race

package view

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/disco-sim/disco/internal/webserver"
)

// waitMax is how long a page may take to show something.
const waitMax = 30 * time.Second

// browser starts a Chromium, and opens a page in it.
func browser(t *testing.T, url string) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	path := ""
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Skip("NOT TESTED: there is no Chromium (Debian's chromium-headless-shell)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.WindowSize(1280, 900))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	messages, over := chromedp.Console(ctx), make(chan struct{})
	go func() {
		defer close(over)
		for m, err := range messages {
			if err != nil {
				return // the browser has ended
			}
			if m.IsException() || m.Type == "error" && m.Source != "network" { // where the server is to go
				t.Errorf("the page says %s", m)
			}
		}
	}()
	t.Cleanup(func() { <-over })
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) }) // waits for its end
	return ctx
}

// value is what an expression gives.
func value[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	x, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return x
}

// until waits until an expression is true.
func until(t *testing.T, ctx context.Context, expression string) {
	t.Helper()
	for end := time.Now().Add(waitMax); !value[bool](t, ctx, "Boolean("+expression+")"); {
		if time.Now().After(end) {
			t.Fatalf("within %v not true: %s; the page has\n%s", waitMax, expression,
				value[string](t, ctx, "document.body.innerText.slice(0, 3000)"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// output is the directory of a run with so many boxes in a grid, of which one is down from 40 to 60 s. It has come to
// reached seconds.
func output(t *testing.T, boxes int, reached float64) map[string]string {
	t.Helper()
	type object = map[string]any
	graph := object{"layout": "forces", "aspect": 1, "spans": []object{{"name": "box-1 down", "from_s": 40, "to_s": 60,
		"targets": []string{"box-1"}}}, "omitted": object{"boxes": 0, "links": 0}}
	var all, links []object
	var series strings.Builder
	series.WriteString(head)
	side := int(math.Ceil(math.Sqrt(float64(boxes))))
	for i := range boxes {
		id := fmt.Sprintf("box-%d", i)
		all = append(all, object{"id": id, "kind": []string{"server", "client"}[i%2],
			"load": float64(i) / float64(boxes), "load_of": "utilisation", "x": (float64(i%side) + 0.5) / float64(side),
			"y": (float64(i/side) + 0.5) / float64(side)})
		if i > 0 {
			links = append(links, object{"id": fmt.Sprintf("<b>link</b>-%d", i), "from": fmt.Sprintf("box-%d", i/2),
				"to": id, "load": 0.3, "load_of": "utilisation", "amount": 5, "unit": "requests/s"})
		}
		for k := 0.0; k < reached && i < 1000; k += 20 {
			fmt.Fprintf(&series, "utilisation,%s,,%g,%g,%g\n", id, k, k+20, k/reached)
		}
	}
	for _, figure := range []string{"latency_mean,,s", "latency_p99,,s", "throughput,,requests/s"} {
		for k := 0.0; k < reached; k += 2 {
			fmt.Fprintf(&series, "%s,%g,%g,%g\n", figure, k, k+2, 1+math.Sin(k/9))
		}
	}
	graph["boxes"], graph["links"] = all, links
	files := map[string]string{"series.csv": series.String(), "scenario.yml": "model: test\n"}
	for name, x := range map[string]any{"graph.json": graph,
		"result.json": object{"scenario": "test", "nodes": boxes, "horizon_s": reached, "seed": 1, "results": object{
			"requests": 17, "servers": object{"box-1": object{"requests": 4}}}, "per_worker": []object{{"worker": 0,
			"nodes": boxes, "events": 5, "wall_s": 2, "working_s": 1, "blocked_s": 1}}},
		"overview.json": object{"notes": []string{}, "remarks": []string{},
			"repeat": []string{"disco-run run test.yml"}, "blocks": []object{{
				"heads": []string{"figures", "", "95 % from", "to"}, "rows": []object{{"name": "reached",
					"cells": []object{{"text": fmt.Sprintf("%g s", reached)}, {"text": "1"}, {"text": "2"}}}}},
				{"heads": []string{"spikes", "delay"}, "rows": []object{}},
				{"heads": []string{"none", "x"}, "rows": nil},
				{"heads": []string{"busiest", "load"}, "rows": []object{{"name": "box-3", "cells": []object{{
					"text": "0.9"}}}}}}}} {
		text, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	return files
}

// painted is how many colours the picture has.
const painted = `(() => { const c = document.getElementById('canvas');
	const d = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer);
	return new Set(d).size; })()`

// TestBrowser: a person sees a run with an outage go on and end, and the server go.
func TestBrowser(t *testing.T) {
	dir := t.TempDir()
	files := output(t, 20, 100)
	write(t, dir, files)
	server := httptest.NewServer(webserver.New(Handler(&Dir{path: dir})).Handler)
	defer server.Close()
	ctx := browser(t, server.URL)
	until(t, ctx, `document.querySelectorAll('#charts figure').length === 2 && `+painted+` > 30`)
	until(t, ctx, `document.title === 'test – disco' && document.querySelector('.tile').innerText.includes('100')`)

	// A table without rows isn't there.
	heads := value[string](t, ctx, `[...document.querySelectorAll('#blocks h2')].map((h) => h.innerText).join()
		+ document.querySelectorAll('#blocks table').length`)
	if heads != "busiest1" {
		t.Errorf("found the tables %q, want busiest alone", heads)
	}

	// The slider shows the outage; names are text.
	value[any](t, ctx, `(() => { const s = document.getElementById('time'); s.value = 50;
		s.dispatchEvent(new Event('input')); return 0; })()`)
	until(t, ctx, `document.getElementById('now').innerText.includes('box-1 down')`)
	until(t, ctx, `document.getElementById('time').getAttribute('aria-valuetext').includes('box-1 down')`)
	value[any](t, ctx, `(() => { document.getElementById('listing').open = true; return 0; })()`)
	until(t, ctx, `document.getElementById('list').innerText.includes('<b>link</b>-3')`)

	// Keys choose a box and its links.
	if err := chromedp.Do(ctx, chromedp.Focus("#stage"), chromedp.KeyEvent(kb.ArrowRight),
		chromedp.KeyEvent(kb.Enter)); err != nil {
		t.Fatal(err)
	}
	until(t, ctx, `document.getElementById('said').innerText.startsWith('<b>link</b>-')`)
	until(t, ctx, `document.querySelector('#detail h3').innerText.startsWith('<b>link</b>-')`)
	axe(t, ctx)

	// The run goes on.
	files = output(t, 20, 200)
	files[liveFile] = `{"pid": 1, "state": "running", "reached_s": 200, "horizon_s": 400, "written": 2,
		"workers": [{"index": 0, "epoch_s": 200, "events": 9, "events_per_s": 3, "busy": 0.5, "blocked": 0.4,
		"parked": 0.1, "state": "R"}]}`
	write(t, dir, files)
	until(t, ctx, `document.getElementById('badge').innerText === 'running, 50 %'`)
	until(t, ctx, `document.querySelector('.tile').innerText.includes('200') &&
		document.getElementById('workers').innerText.includes('events/s')`)
	files[liveFile] = `{"pid": 1, "state": "ended", "reached_s": 400, "horizon_s": 400}`
	write(t, dir, files)
	until(t, ctx, `document.getElementById('badge').innerText === 'ended'`)

	// The directory goes, then the server: what was there stays.
	if err := os.Remove(filepath.Join(dir, "result.json")); err != nil {
		t.Fatal(err)
	}
	until(t, ctx, `document.getElementById('banner').innerText.includes('has no result.json')`)
	server.Close()
	until(t, ctx, `document.getElementById('banner').innerText.includes('doesn’t answer')`)
	if !value[bool](t, ctx, `document.querySelector('.tile').innerText.includes('200') && `+painted+` > 30`) {
		t.Error("the page has lost what it had")
	}
}

// TestBrowserLarge: 2,000 boxes are drawn, and again while they are moved.
func TestBrowserLarge(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, output(t, 2000, 100))
	server := httptest.NewServer(webserver.New(Handler(&Dir{path: dir})).Handler)
	defer server.Close()
	ctx := browser(t, server.URL)
	until(t, ctx, painted+` > 60`)
	value[any](t, ctx, `(() => { window.frames0 = 0; const stage = document.getElementById('stage'); let n = 0;
		const begun = performance.now();
		const step = () => { stage.dispatchEvent(new KeyboardEvent('keydown', { key: n % 2 ? '+' : '-' }));
			if (++n < 60) requestAnimationFrame(step); else window.took = performance.now() - begun; };
		requestAnimationFrame(step); return 0; })()`)
	until(t, ctx, `window.took > 0`)
	t.Logf("60 pictures of 2,000 boxes took %.0f ms", value[float64](t, ctx, `window.took`))
}

// axe looks at the page as people with a screen reader, or with little sight, do: in light and in dark.
func axe(t *testing.T, ctx context.Context) {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Log("NOT TESTED: axe-core, since there is no npm")
		return
	}
	folder := t.TempDir()
	short, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pack := exec.CommandContext(short, npm, "pack", "--silent", "axe-core@4.14.1")
	pack.Dir = folder
	pack.Env = append(os.Environ(), "npm_config_cache="+folder+"/cache")
	if out, err := pack.CombinedOutput(); err != nil {
		t.Logf("NOT TESTED: axe-core can't be had: %v %.300s", err, out)
		return
	}
	unpack := exec.CommandContext(short, "tar", "xzf", "axe-core-4.14.1.tgz", "package/axe.min.js")
	unpack.Dir = folder
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	script, err := os.ReadFile(filepath.Join(folder, "package/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	value[any](t, ctx, string(script)+"; 0")
	for _, scheme := range []string{"light", "dark"} {
		if err := chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			return err
		})); err != nil {
			t.Fatal(err)
		}
		found, err := chromedp.Run(ctx, chromedp.Evaluate[string](`axe.run().then((r) => r.violations.map((v) => v.id +
			': ' + v.help + ': ' + v.nodes.map((n) => n.html.slice(0, 120)).slice(0, 3).join(' ')).join('\n') +
			(r.passes.length ? '' : 'nothing was checked'))`, chromedp.EvalAwaitPromise))
		if err != nil || found != "" {
			t.Errorf("%s: %v %s", scheme, err, found)
		}
	}
}
