// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kubernetes has kubectl start a pod for each attempt, wherever the cluster finds room. It is a Scheduler.
type Kubernetes struct {
	Image string   // with disco-group and the program that runs scenarios
	Args  []string // of each kubectl: --context, --namespace, …
	Host  []string // starts a host in the image

	// Pod is what a pod has besides, as JSON of its spec: volumes, nodeSelector, …; nil: nothing. Its container is
	// Container, without a name: volumeMounts, env, …; nil: nothing.
	Pod, Container json.RawMessage
}

// markLabel bears the agent's mark, and podWait is how long a pod may wait for room before kubectl gives up: the caller
// of Prepare does sooner.
const (
	markLabel = "disco.sim/mark"
	podWait   = 30 * 24 * time.Hour
)

// markLength is that of Mark.
const markLength = len("disco-") + 12

// CheckPod says what is wrong with Pod and Container.
func (k Kubernetes) CheckPod() error {
	_, err := k.overrides("disco-x", 1, nil)
	return err
}

// overrides is what kubectl run puts over the pod that it makes.
func (k Kubernetes) overrides(name string, processors int, without []string) (string, error) {
	pod, container := map[string]any{}, map[string]any{}
	for what, from := range map[string]struct {
		text json.RawMessage
		to   *map[string]any
	}{"the pod": {k.Pod, &pod}, "the container": {k.Container, &container}} {
		if from.text == nil {
			continue
		}
		if err := json.Unmarshal(from.text, from.to); err != nil || *from.to == nil {
			return "", fmt.Errorf("%s: found %.80q, want a JSON object", what, from.text)
		}
	}
	for _, key := range []string{"containers", "restartPolicy"} {
		if _, ok := pod[key]; ok {
			return "", fmt.Errorf("the pod: found %s, which the agent says", key)
		}
	}
	for _, key := range []string{"name", "image", "command", "args", "stdin", "stdinOnce", "tty"} {
		if _, ok := container[key]; ok {
			return "", fmt.Errorf("the container: found %s, which the agent says", key)
		}
	}
	cpu := strconv.Itoa(processors)
	if container["resources"] == nil {
		container["resources"] = map[string]any{"requests": map[string]string{"cpu": cpu}}
	}
	if env, none := container["env"].([]any); none || container["env"] == nil {
		container["env"] = append(env, map[string]any{"name": nodeVariable,
			"valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "spec.nodeName"}}})
	}
	if len(without) > 0 && pod["affinity"] == nil { // one's own says where
		pod["affinity"] = notOn(without)
	}
	container["name"], container["stdin"], container["stdinOnce"] = name, true, true
	pod["containers"] = []any{container}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "spec": pod})
	return string(text), err
}

// notOn is the affinity of a pod that isn't to be on some nodes: the names of a field are given one by one.
func notOn(nodes []string) map[string]any {
	var terms []any
	for _, node := range nodes {
		terms = append(terms, map[string]any{"key": "metadata.name", "operator": "NotIn", "values": []string{node}})
	}
	must := map[string]any{"nodeSelectorTerms": []any{map[string]any{"matchFields": terms}}}
	return map[string]any{"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": must}}
}

// Command implements Scheduler.
func (k Kubernetes) Command(name string, processors int, without []string) []string {
	overrides, err := k.overrides(name, processors, without)
	if err != nil {
		overrides = err.Error() // kubectl says so, where nobody has called CheckPod
	}
	c := append([]string{"kubectl"}, k.Args...)
	c = append(c, "run", name, "--image="+k.Image, "--restart=Never", "--stdin", "--quiet",
		"--labels=app.kubernetes.io/managed-by=disco,"+markLabel+"="+name[:min(len(name), markLength)],
		"--pod-running-timeout="+podWait.String(), "--override-type=strategic", "--overrides="+overrides,
		"--command", "--")
	return append(c, k.Host...)
}

// Left implements Scheduler: pods that have ended are there until somebody deletes them.
func (k Kubernetes) Left(ctx context.Context, prefix string) ([]string, error) {
	args := append([]string{}, k.Args...)
	out, err := run1(ctx, "kubectl", append(args, "get", "pods", "--selector="+markLabel+"="+
		prefix[:min(len(prefix), markLength)], "--output=name")...)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range strings.FieldsSeq(out) {
		if name = strings.TrimPrefix(name, "pod/"); strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, nil
}

// End implements Scheduler.
func (k Kubernetes) End(ctx context.Context, names []string) error {
	args := append([]string{}, k.Args...)
	args = append(args, "delete", "pods", "--wait=false", "--ignore-not-found", "--")
	_, err := run1(ctx, "kubectl", append(args, names...)...)
	return err
}
