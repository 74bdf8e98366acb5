package profile_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/core/profile"
)

// Verifies that the first requests of agents that start together are spread over 10 s
// where their labels are stored, and that a node without labels waits for at most 1 s.
func TestSpread(t *testing.T) {
	const agents = 200
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		server := clustertest.NewInBubble(t, nodeName, labels("gpu"))
		w, stop := start(t, profile.WatcherOptions{Nodes: server.Client(t).NodeMetadata(nodeName), Node: nodeName, Memory: memory(dir, nodeName)})
		began := time.Now()
		<-w.Changed()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the labels of a node without stored ones are known after %v", took)
		}
		stop()
	})
	synctest.Test(t, func(t *testing.T) {
		began, seconds := time.Now(), map[int]int{}
		var mu sync.Mutex
		nodes := &cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return nil, errors.New("not listed")
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				mu.Lock()
				defer mu.Unlock()
				seconds[int(time.Since(began).Seconds())]++
				return watch.NewFake(), nil
			},
		}
		for range agents {
			start(t, profile.WatcherOptions{Nodes: nodes, Node: nodeName, Memory: memory(dir, nodeName)})
		}
		<-time.After(time.Minute)
		synctest.Wait()
		all, most := 0, 0
		for second, requests := range seconds {
			if all, most = all+requests, max(most, requests); second >= 10 {
				t.Errorf("%d requests after %d s", requests, second)
			}
		}
		if all != agents || most > agents/4 {
			t.Errorf("%d requests of %d agents, %d within a second", all, agents, most)
		}
	})
}
