package holders

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/podresources"
)

// Verifies what becomes of an allocation that no list ever named, by what kubelet's
// checkpoint says of it: that of a pod which was deleted right after it ends, that of an
// init container stays.
func TestUnseenAllocation(t *testing.T) {
	const (
		without = `{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{"example.com/gpu":["a"]}},"Checksum":1}`
		with    = `{"Data":{"PodDeviceEntries":[{"PodUID":"1","ContainerName":"init","ResourceName":"example.com/gpu","DeviceIDs":{"0":["a"]},"AllocResp":"eA=="}],` +
			`"RegisteredDevices":{"example.com/gpu":["a"]}},"Checksum":1}`
	)
	for name, tc := range map[string]struct {
		content string
		age     time.Duration // of the allocation
		written time.Duration // after the allocation
		up      time.Duration // of kubelet
		release bool
		rewrite bool
	}{
		"the pod is gone":           {content: without, age: time.Minute, written: 50 * time.Second, up: time.Hour, release: true},
		"an init container has it":  {content: with, age: time.Minute, written: 50 * time.Second, up: time.Hour},
		"it was not written since":  {content: with, age: time.Minute, written: 10 * time.Second, up: time.Hour, rewrite: true},
		"it is from before":         {content: without, age: time.Minute, written: -time.Second, up: time.Hour, rewrite: true},
		"the allocation is new":     {content: without, age: 29 * time.Second, written: 20 * time.Second, up: time.Hour},
		"kubelet has just started":  {content: without, age: time.Minute, written: 50 * time.Second, up: time.Second},
		"it is cut off":             {content: without[:40], age: time.Minute, written: 50 * time.Second, up: time.Hour},
		"it has another form":       {content: `{"Data":{"Entries":[]}}`, age: time.Minute, written: 50 * time.Second, up: time.Hour},
		"entries have another form": {content: `{"Data":{"PodDeviceEntries":[{"Resource":"x"}],"RegisteredDevices":{}}}`, age: time.Minute, written: 50 * time.Second, up: time.Hour},
		"there is none":             {age: time.Minute, up: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKubelet()
			opts := options(t, k)
			rewrites, checkpoint := 0, filepath.Join(t.TempDir(), "kubelet_internal_checkpoint")
			opts.Kubelet = pods(k, podresources.Options{Checkpoint: checkpoint, Rewrite: func() { rewrites++ }})
			b := open(t, k, opts)
			allocate(t, b, "a")
			if tc.content != "" {
				at := k.clock().Add(tc.written)
				must(t, os.WriteFile(checkpoint, []byte(tc.content), 0o600))
				must(t, os.Chtimes(checkpoint, at, at))
			}
			k.pass(tc.age)
			k.up = tc.up
			k.shows()
			poll(t, b)
			if released := !b.Held(key("a")); released != tc.release || (rewrites > 0) != tc.rewrite {
				t.Errorf("released is %v, kubelet was to write again %d times; want %v, %v", released, rewrites, tc.release, tc.rewrite)
			}
		})
	}
}
