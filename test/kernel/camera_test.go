package kernel

import (
	"fmt"
	"slices"
	"testing"
)

// TestCameraKeepsItsNodesOverOneAndTwoDigits verifies that a camera with the nodes video9 and video10 is the same device
// as with other numbers, and that a container gets both nodes. It fails if each node is a device, or the ID has a node's
// number.
func TestCameraKeepsItsNodesOverOneAndTwoDigits(t *testing.T) {
	configure(t, standard)
	untilCount(t, "example.com/camera", 0)
	var before []string
	for _, first := range []int{9, 3} {
		m.Run(t, "modprobe vivid n_devs=1 node_types=0x101 vid_cap_nr=%d vid_out_nr=%d", first, first+1)
		t.Cleanup(func() { m.Try(t, "modprobe --remove vivid") })
		list := untilCount(t, "example.com/camera", 1)
		if before != nil && !slices.Equal(before, list) {
			t.Errorf("the camera is %q, and was %q under other numbers", list, before)
		}
		before = list
		hold(t, "viewer", "example.com/camera")
		want := []string{fmt.Sprintf("/dev/video%d", first), fmt.Sprintf("/dev/video%d", first+1)}
		if text := opens(t, "viewer", want...); text != "" {
			t.Errorf("%s; the container has %q", text, nodes(t, "viewer"))
		}
		release(t, "viewer")
		m.Run(t, "modprobe --remove vivid")
		untilCount(t, "example.com/camera", 0)
	}
}
