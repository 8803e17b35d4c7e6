// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	etcd "go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/embed"
)

// start starts etcd, as one more of the running servers if it is to join them; nil when a signal has ended that. To join,
// etcd asks each of them several things, and gives up where one answer is late: then it starts again.
func (j *joiner) start(ctx context.Context, streams context.Context) (*embed.Etcd, error) {
	began, told := time.Now(), false
	within, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	for {
		c, err := j.config(j.dir, streams, j.password != "")
		if err != nil {
			return nil, err
		}
		joins := len(j.options.join) > 0 && !j.dir.old
		if joins {
			c.InitialCluster, err = j.join(within)
			if ctx.Err() != nil {
				return nil, nil // a signal has ended it
			} else if err != nil {
				return nil, err
			}
			c.ClusterState = embed.ClusterStateFlagExisting
		}
		e, err := embed.StartEtcd(c)
		if err == nil {
			return e, nil
		}
		err = fmt.Errorf("--data %s: etcd doesn't start: %w", j.dir.path, err)
		tried := time.Since(began).Round(time.Second)
		switch {
		case joins && later(j.running, etcdVersion):
			return nil, fmt.Errorf("%w: --join %s: these servers have etcd %s, and this disco-server has %s: use one that has "+
				"theirs", err, strings.Join(j.options.join, ","), j.running, etcdVersion)
		case !joins || j.dir.begun() || errors.Is(err, syscall.EADDRINUSE):
			return nil, failure{err}
		case !told && tried > 2*time.Second:
			told = true
			fmt.Fprintf(os.Stderr, "disco-server: trying for %s: %v\n", startMax, err)
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-within.Done():
			return nil, failure{fmt.Errorf("tried for %s: %w", tried, err)}
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// begun tells whether etcd has a log there, which is the first thing that it keeps of a start.
func (d *folder) begun() bool {
	_, err := os.Stat(filepath.Join(d.path, "member", "wal"))
	return err == nil
}

// settledOn asks the members that run for the version on which their cluster has settled, and gives the first answer. The
// first server of all can be ready seconds before it has, and until then etcd takes every cluster for one that doesn't
// suit it.
func (j *joiner) settledOn(ctx context.Context, list []*pb.Member) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: j.tls, DisableKeepAlives: true}}
	type answer struct {
		version string
		err     error
	}
	answers, asked := make(chan answer, len(list)), 0
	for _, m := range list {
		if m.Name == "" || len(m.PeerURLs) == 0 {
			continue // it hasn't started yet
		}
		asked++
		go func() {
			v, err := clusterVersion(ctx, c, m.PeerURLs[0])
			answers <- answer{v, err}
		}()
	}
	err := errors.New("no server tells the version of its cluster")
	for range asked {
		a := <-answers
		if a.err == nil {
			return a.version, nil
		}
		err = fmt.Errorf("%w: %w", err, a.err)
	}
	return "", err
}

// clusterVersion asks one member.
func clusterVersion(ctx context.Context, c *http.Client, peer string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, peer+"/version", nil)
	if err != nil {
		return "", err
	}
	r, err := c.Do(request)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	var v etcd.Versions
	if err := json.NewDecoder(io.LimitReader(r.Body, 4096)).Decode(&v); err != nil {
		return "", fmt.Errorf("%s: %s: %w", peer, r.Status, err)
	}
	if _, _, err := minor(v.Cluster); err != nil {
		return "", fmt.Errorf("%s: its cluster's version is %q", peer, v.Cluster)
	}
	return v.Cluster, nil
}

// minor reads the first two numbers of a version.
func minor(version string) (major, minor int, err error) {
	_, err = fmt.Sscanf(version, "%d.%d", &major, &minor)
	return major, minor, err
}

// later tells whether a version is of a later minor version than another.
func later(version, than string) bool {
	major, its, err := minor(version)
	thanMajor, thans, thanErr := minor(than)
	return err == nil && thanErr == nil && (major > thanMajor || major == thanMajor && its > thans)
}
