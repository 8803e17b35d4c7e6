// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/fleet/executor/executortest"
	"github.com/disco-sim/disco/fleet/executor/remote"
)

// object is one of Kubernetes.
type object = map[string]any

// kube is as much of an API server as kubectl run, get and delete ask for, for pods, which are processes of this
// machine. It says nothing of a real cluster; what it shows is that kubectl takes the pods, and carries the protocol.
type kube struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	changed chan struct{}     // closed and made anew
	pods    map[string]object // which aren't changed: answers that tell them are written without mu
	running map[string]*exec.Cmd
	asked   []object // pods, as kubectl sent them
}

// newKube starts one that the test ends, for a kubectl that is there.
func newKube(t *testing.T) *kube {
	t.Helper()
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skipf("SKIPPED: there is no kubectl: %v", err)
	}
	if out, err := exec.Command("kubectl", "run", "--help").Output(); err != nil ||
		!strings.Contains(string(out), "--override-type") {
		t.Skipf("SKIPPED: this kubectl has no run --override-type (1.24 and later do): %v", err)
	}
	k := &kube{t: t, changed: make(chan struct{}), pods: map[string]object{}, running: map[string]*exec.Cmd{}}
	mux := http.NewServeMux()
	reply := func(pattern string, o object) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { send(w, o) })
	}
	reply("GET /api", object{"kind": "APIVersions", "versions": []string{"v1"}})
	reply("GET /apis", object{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{}})
	verbs := []string{"create", "get", "list", "watch", "delete"}
	reply("GET /api/v1", object{"kind": "APIResourceList", "groupVersion": "v1", "resources": []object{
		{"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": verbs}}})
	const pods = "/api/v1/namespaces/default/pods"
	mux.HandleFunc("POST "+pods, k.create)
	mux.HandleFunc("GET "+pods, k.list)
	mux.HandleFunc("GET "+pods+"/{name}", k.get)
	mux.HandleFunc("DELETE "+pods+"/{name}", k.remove)
	mux.HandleFunc("GET "+pods+"/{name}/attach", k.attach)
	k.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		k.CloseClientConnections()
		k.Close()
	})
	return k
}

func send(w http.ResponseWriter, o object) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o) // who has gone gets nothing
}

// change changes a pod, and tells who watches.
func (k *kube) change(name string, by func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	by()
	close(k.changed)
	k.changed = make(chan struct{})
}

func (k *kube) create(w http.ResponseWriter, r *http.Request) {
	var pod object
	if err := json.NewDecoder(r.Body).Decode(&pod); err != nil {
		k.t.Errorf("kubectl sends a pod that can't be read: %v", err)
	}
	meta := pod["metadata"].(object)
	name := meta["name"].(string)
	meta["namespace"], meta["resourceVersion"], meta["uid"] = "default", "1", name
	pod["kind"], pod["apiVersion"] = "Pod", "v1"
	pod["status"] = object{"phase": "Running", "conditions": []object{{"type": "Ready", "status": "True"}}}
	k.change(name, func() {
		k.pods[name] = pod
		k.asked = append(k.asked, pod)
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	send(w, pod)
}

// selected are the pods that a request asks for.
func (k *kube) selected(r *http.Request) (items []object, changed <-chan struct{}) {
	name, field := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	key, value, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
	k.mu.Lock()
	defer k.mu.Unlock()
	items = []object{}
	for n, pod := range k.pods {
		labels, _ := pod["metadata"].(object)["labels"].(object)
		if (!field || n == name) && (key == "" || labels[key] == value) {
			items = append(items, pod)
		}
	}
	return items, k.changed
}

func (k *kube) list(w http.ResponseWriter, r *http.Request) {
	items, changed := k.selected(r)
	if r.URL.Query().Get("watch") == "" {
		send(w, object{"kind": "PodList", "apiVersion": "v1", "metadata": object{"resourceVersion": "1"},
			"items": items})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	for {
		for _, pod := range items {
			k.mu.Lock()
			text, err := json.Marshal(object{"type": "MODIFIED", "object": pod})
			k.mu.Unlock()
			if _, wrong := w.Write(append(text, '\n')); err != nil || wrong != nil {
				return
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
			items, changed = k.selected(r)
		case <-r.Context().Done():
			return
		}
	}
}

func (k *kube) get(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	text, _ := json.Marshal(k.pods[r.PathValue("name")]) // it was read from JSON
	k.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if string(text) == "null" {
		w.WriteHeader(http.StatusNotFound)
		text = []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}
	_, _ = w.Write(text) // who has gone gets nothing
}

// remove asks a pod to end. It is gone when its process is.
func (k *kube) remove(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	k.mu.Lock()
	cmd := k.running[name]
	k.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	} else {
		k.change(name, func() { delete(k.pods, name) })
	}
	send(w, object{"kind": "Status", "apiVersion": "v1", "status": "Success"})
}

// attach runs the pod's process, and passes its streams on over a web socket, as kubectl asks for.
func (k *kube) attach(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	k.mu.Lock()
	container := k.pods[name]["spec"].(object)["containers"].([]any)[0].(object)
	k.mu.Unlock()
	var argv []string
	for _, word := range container["command"].([]any) {
		argv = append(argv, word.(string))
	}
	if !slices.Contains(strings.Split(r.Header.Get("Sec-WebSocket-Protocol"), ","), channelProtocol) {
		http.Error(w, "want a web socket of "+channelProtocol, http.StatusBadRequest)
		return
	}
	conn, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		k.t.Error(err)
		return
	}
	defer conn.Close()
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]), channelProtocol)
	s := &socket{conn: conn, r: buffered.Reader}
	cmd := exec.Command(argv[0], argv[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		k.t.Error(err)
		return
	}
	cmd.Stdout, cmd.Stderr = channel{s, 1}, channel{s, 2}
	if err := cmd.Start(); err != nil {
		k.t.Error(err)
		return
	}
	k.mu.Lock()
	k.running[name] = cmd
	k.mu.Unlock()
	go s.stdin(in)
	_ = cmd.Wait() // kubectl isn't told how: the host's connection ends in any case
	k.change(name, func() {
		delete(k.running, name)
		delete(k.pods, name)
	})
	_, _ = channel{s, 3}.Write([]byte(`{"status":"Success"}`)) // who has gone gets nothing
	s.frame(8, []byte{3, 232})
}

// channelProtocol is how streams are carried: a first byte that says which, 255 for an end.
const channelProtocol = "v5.channel.k8s.io"

// socket is a web socket.
type socket struct {
	conn net.Conn
	r    *bufio.Reader
	mu   sync.Mutex
}

// frame sends one.
func (s *socket) frame(code byte, text []byte) {
	head := []byte{0x80 | code}
	switch n := len(text); {
	case n < 126:
		head = append(head, byte(n))
	case n < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(n))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.conn.Write(append(head, text...)) // who has gone gets nothing
}

// read reads a frame.
func (s *socket) read() (code byte, text []byte, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(s.r, head); err != nil {
		return 0, nil, err
	}
	n := uint64(head[1] & 0x7f)
	if more := map[uint64]int{126: 2, 127: 8}[n]; more > 0 {
		long := make([]byte, 8)
		if _, err := io.ReadFull(s.r, long[8-more:]); err != nil {
			return 0, nil, err
		}
		n = binary.BigEndian.Uint64(long)
	}
	if n > 1<<24 {
		return 0, nil, fmt.Errorf("found a frame of %d bytes", n)
	}
	mask := make([]byte, 4)
	if head[1]&0x80 != 0 {
		if _, err := io.ReadFull(s.r, mask); err != nil {
			return 0, nil, err
		}
	}
	text = make([]byte, n)
	_, err = io.ReadFull(s.r, text)
	for i := range text {
		text[i] ^= mask[i%4]
	}
	return head[0] & 0xf, text, err
}

// stdin passes standard input on until it ends.
func (s *socket) stdin(to io.WriteCloser) {
	defer to.Close()
	stream := byte(0)
	for {
		code, text, err := s.read()
		if err != nil || code == 8 {
			return
		}
		if code == 9 {
			s.frame(10, text)
			continue
		}
		if code != 0 && len(text) > 0 { // else a frame goes on
			stream, text = text[0], text[1:]
		}
		if stream == 255 {
			return
		}
		if _, err := to.Write(text); err != nil {
			return
		}
	}
}

// channel is an output of a process.
type channel struct {
	s    *socket
	kind byte
}

func (c channel) Write(b []byte) (int, error) {
	c.s.frame(2, append([]byte{c.kind}, b...))
	return len(b), nil
}

// scheduler is one that starts hosts which work in a folder.
func (k *kube) scheduler(work string) remote.Kubernetes {
	return remote.Kubernetes{Image: "registry.example/disco:1", Args: []string{"--server=" + k.URL},
		Host: hostCommand(work), Pod: json.RawMessage(`{"nodeSelector":{"disk":"fast"}}`),
		Container: json.RawMessage(`{"env":[{"name":"A","value":"b"}]}`)}
}

// TestKubernetes: the suite, with kubectl and pods that are processes, and what is said and left when something between
// agent and attempt is killed.
func TestKubernetes(t *testing.T) {
	k := newKube(t)
	var work string
	kubernetes := func(t *testing.T) remote.Options {
		work = filepath.Join(t.TempDir(), "work")
		o := options(t)
		o.Scheduler, o.Slots = k.scheduler(work), 16
		return o
	}
	kubeLeft := func(t *testing.T) []string {
		all := left(t, work)
		k.mu.Lock()
		defer k.mu.Unlock()
		for name := range k.pods {
			all = append(all, name)
		}
		return all
	}
	t.Run("suite", func(t *testing.T) {
		executortest.Run(t, executortest.Config{
			New: func(t *testing.T, fetch func(context.Context, fleet.Digest) ([]byte, error)) executor.Executor {
				o := kubernetes(t)
				o.Fetch = fetch
				return open(t, o)
			},
			Program:   program(t),
			Left:      kubeLeft,
			Processes: func(job string) []int { return markedBy(t, work, job) },
		})
	})
	for name, pids := range map[string]func(t *testing.T, work string) []int{
		"host": hosts,
		"kubectl": func(t *testing.T, work string) []int {
			return processesOf(t, work, func(c string) bool { return strings.HasPrefix(c, "kubectl ") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t, kubernetes(t))
			j := newJob(t, "x")
			r := runs(t, e, j)
			kill(t, pids(t, work), syscall.SIGKILL)
			ends(t, r, "x/0.0.0.1: the connection has ended", "none of its processes is left")
			again(t, e, j)
			closes(t, e)
			if all := kubeLeft(t); len(all) > 0 {
				t.Errorf("this is left: %q", all)
			}
		})
	}
	k.checkPod(t)
}

// checkPod looks at what kubectl has sent: pods of hosts with one processor or two, in the order of the tests.
func (k *kube) checkPod(t *testing.T) {
	processors := map[string]int{}
	for _, pod := range k.asked {
		text, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"nodeSelector":{"disk":"fast"}`, `"env":[{"name":"A","value":"b"},`,
			`"image":"registry.example/disco:1"`, `"restartPolicy":"Never"`, `"stdin":true`, `"stdinOnce":true`,
			`"disco.sim/mark":"disco-`, `"app.kubernetes.io/managed-by":"disco"`} {
			if !strings.Contains(string(text), want) {
				t.Errorf("found the pod %s, want %s in it", text, want)
			}
		}
		_, after, _ := strings.Cut(string(text), `"resources":{"requests":{"cpu":`)
		number, _, _ := strings.Cut(after, "}}")
		processors[number]++
		if n := len(pod["spec"].(object)["containers"].([]any)); n != 1 {
			t.Errorf("found %d containers, want one", n)
		}
	}
	if processors[`"2"`] == 0 || processors[`"1"`]+processors[`"2"`] != len(k.asked) {
		t.Errorf("found pods with so many processors: %v, want some with two, and others with one", processors)
	}
}

// TestKubernetesPods: what can't be put into a pod is refused.
func TestKubernetesPods(t *testing.T) {
	for want, k := range map[string]remote.Kubernetes{
		`the pod: found "[1]", want a JSON object`:             {Pod: json.RawMessage(`[1]`)},
		`the container: found "nothing", want a JSON object`:   {Container: json.RawMessage(`nothing`)},
		`the pod: found containers, which the agent says`:      {Pod: json.RawMessage(`{"containers":[]}`)},
		`the container: found image, which the agent says`:     {Container: json.RawMessage(`{"image":"x"}`)},
		`the container: found "null", want a JSON object`:      {Container: json.RawMessage(`null`)},
		`the pod: found restartPolicy, which the agent says`:   {Pod: json.RawMessage(`{"restartPolicy":"Always"}`)},
		`the container: found stdinOnce, which the agent says`: {Container: json.RawMessage(`{"stdinOnce":false}`)},
	} {
		if err := k.CheckPod(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %q", err, want)
		}
	}
}
