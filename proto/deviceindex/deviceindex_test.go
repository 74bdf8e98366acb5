package deviceindex

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that every ID of a list is found where it is, the first of those that are the
// same, and no other one.
func TestFind(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 63, 64, 65, 1000, 65_536} {
		ids := make([][]byte, n)
		at := func(i int) []byte { return ids[i] }
		x, first := New(n), map[string]int{}
		for i := range ids {
			ids[i] = fmt.Appendf(nil, "device-%d", i)
			if i%7 == 6 {
				ids[i] = ids[rand.IntN(i)]
			}
			if i%11 == 10 {
				ids[i] = nil
			}
			x.Add(ids[i], i, at)
			if _, ok := first[string(ids[i])]; !ok {
				first[string(ids[i])] = i
			}
		}
		for id, want := range first {
			if got := x.Find([]byte(id), at); got != want {
				t.Fatalf("%d devices: %q is at %d, want %d", n, id, got, want)
			}
		}
		for i := range 1000 {
			if got := x.Find(fmt.Appendf(nil, "other-%d", i), at); got != -1 {
				t.Fatalf("%d devices: one that is not there is at %d", n, got)
			}
		}
		if size := 8 * len(x.slots); size > 20*n+32 {
			t.Errorf("%d devices: %d bytes", n, size)
		}
	}
}

// FuzzID compares with what protobuf decodes.
func FuzzID(f *testing.F) {
	full, err := proto.Marshal(&backendv1.Device{Id: "GPU-1", Class: "gpu", PreparedFor: 3, Edits: &backendv1.ContainerEdits{Env: map[string]string{"A": "b"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	f.Add([]byte{})
	f.Add([]byte{1<<3 | 2, 1, 'a', 1<<3 | 2, 1, 'b'})
	f.Add([]byte{1<<3 | 2, 200})
	f.Fuzz(func(t *testing.T, data []byte) {
		got := ID(data)
		var d backendv1.Device
		if proto.Unmarshal(data, &d) == nil && string(got) != d.GetId() {
			t.Errorf("%q, want %q", got, d.GetId())
		}
	})
}
