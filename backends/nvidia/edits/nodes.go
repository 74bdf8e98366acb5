package edits

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/NVIDIA/nvidia-container-toolkit/pkg/lookup"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// controlNodes are the nodes of the driver as a whole; every program needs the first
// two.
var controlNodes = []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}

const neededControlNodes = 2

// maxProcFile bounds how much of a file in procfs is read, in bytes.
const maxProcFile = 64 << 10

// nodes finds device nodes.
type nodes struct {
	root   place
	procfs string
	locate lookup.Locator
	majors map[string]uint32
}

func newNodes(root place, procfs string, log *logger) *nodes {
	n := &nodes{root: root, procfs: procfs}
	n.locate = lookup.NewCharDeviceLocator(lookup.WithRoot(root.here), lookup.WithLogger(log))
	if data, err := readSmall(filepath.Join(procfs, "devices")); err == nil {
		n.majors = parseMajors(data)
	}
	return n
}

// find returns the node with this path in a container; the error names a missing node
// and what to do.
func (n *nodes) find(path string) (*sdk.DeviceNode, error) { return n.findOr(path, remedy(path)) }

// findOr is find; remedy makes the node.
func (n *nodes) findOr(path, remedy string) (*sdk.DeviceNode, error) {
	here := filepath.Join(n.root.here, path)
	if found, err := n.locate.Locate(path); err != nil || len(found) == 0 {
		return nil, fmt.Errorf("device node %s is missing (looked for %s); %s", path, here, remedy)
	}
	if err := n.checkMajor(path, here, remedy); err != nil {
		return nil, err
	}
	host, err := n.root.toHost(here)
	if err != nil {
		return nil, err
	}
	return node(path, host), nil
}

func node(path, host string) *sdk.DeviceNode {
	d := &sdk.DeviceNode{Path: path, Permissions: "rw"}
	if host != path {
		d.HostPath = host
	}
	return d
}

func remedy(path string) string {
	switch {
	case strings.HasPrefix(path, "/dev/nvidia-uvm"):
		return "load the kernel module nvidia-uvm: nvidia-modprobe -u -c 0"
	case strings.HasPrefix(path, "/dev/nvidia-caps-imex"):
		return "make it: nvidia-modprobe -i"
	}
	if minor, ok := strings.CutPrefix(path, "/dev/nvidia"); ok && minor != "" && strings.Trim(minor, "0123456789") == "" {
		return "make it: nvidia-modprobe -c " + minor + ", or run nvidia-smi"
	}
	return "load the driver and make its nodes: nvidia-modprobe -c 0, or run nvidia-smi"
}

// checkMajor detects nodes of an earlier load of the driver: some of its modules get
// new major numbers at each load.
func (n *nodes) checkMajor(path, here, remedy string) error {
	module := ""
	switch {
	case strings.HasPrefix(path, "/dev/nvidia-uvm"):
		module = "nvidia-uvm"
	case strings.HasPrefix(path, "/dev/nvidia-caps/"):
		module = "nvidia-caps"
	case strings.HasPrefix(path, "/dev/nvidia-caps-imex-channels/"):
		module = "nvidia-caps-imex-channels"
	}
	want, ok := n.majors[module]
	if !ok {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Stat(here, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return nil //nolint:nilerr // find reports a missing node
	}
	if got := unix.Major(uint64(st.Rdev)); got != want { //nolint:unconvert // the type differs between architectures
		return fmt.Errorf("device node %s has the major number %d, the driver has %d: it is of an earlier load of the driver; remove it, then %s",
			path, got, want, remedy)
	}
	return nil
}

// control returns the existing nodes of the driver as a whole.
func (n *nodes) control() ([]*sdk.DeviceNode, error) {
	var out []*sdk.DeviceNode
	for i, path := range controlNodes {
		d, err := n.find(path)
		if err == nil {
			out = append(out, d)
		} else if i < neededControlNodes {
			return nil, err
		}
	}
	return out, nil
}

// MissingNode returns nil if the device node of the GPU with this minor number exists;
// otherwise an error that names the node and what to do.
func (m *Maker) MissingNode(minor int) error {
	_, err := m.newWork("", &Set{}).nodes.gpu(&driver.GPU{Minor: minor})
	return err
}

// gpu returns the node of a GPU.
func (n *nodes) gpu(g *driver.GPU) (*sdk.DeviceNode, error) {
	if g.Minor < 0 {
		return nil, errors.New("its minor number is not known, so neither is its device node")
	}
	return n.find("/dev/nvidia" + strconv.Itoa(g.Minor))
}

// instance returns the nodes of a MIG device: its GPU's, and those of the two
// capabilities without which the GPU's cannot be used. See "MIG device nodes" in
// https://docs.nvidia.com/datacenter/tesla/mig-user-guide/.
func (n *nodes) instance(g *driver.GPU, i *driver.Instance) ([]*sdk.DeviceNode, error) {
	d, err := n.gpu(g)
	if err != nil {
		return nil, err
	}
	out := []*sdk.DeviceNode{d}
	gi := fmt.Sprintf("driver/nvidia/capabilities/gpu%d/mig/gi%d", g.Minor, i.GPUInstance)
	for _, file := range []string{gi + "/access", fmt.Sprintf("%s/ci%d/access", gi, i.ComputeInstance)} {
		data, err := readSmall(filepath.Join(n.procfs, file))
		if err != nil {
			return nil, fmt.Errorf("the MIG capability is missing, its instance may just have been removed: %w", err)
		}
		minor, err := parseCapability(data)
		if err != nil {
			return nil, fmt.Errorf("MIG capability %s: %w", filepath.Join(n.procfs, file), err)
		}
		d, err := n.findOr(fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", minor), "make it on the host: nvidia-modprobe -f /proc/"+file)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// parseCapability returns the minor number in a capability's file, which has lines
// such as "DeviceFileMinor: 3".
func parseCapability(data []byte) (uint32, error) {
	for line := range bytes.Lines(data) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || string(name) != "DeviceFileMinor" {
			continue
		}
		minor, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 20)
		if err != nil {
			return 0, fmt.Errorf("no minor number: %q", bytes.TrimSpace(value))
		}
		return uint32(minor), nil
	}
	return 0, errors.New("there is no DeviceFileMinor in it")
}

// parseMajors returns the first major number of each character device driver in
// /proc/devices.
func parseMajors(data []byte) map[string]uint32 {
	out := map[string]uint32{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 2 && fields[0] == "Block" {
			break
		}
		if len(fields) != 2 {
			continue
		}
		major, err := strconv.ParseUint(fields[0], 10, 12)
		if _, twice := out[fields[1]]; err == nil && !twice {
			out[fields[1]] = uint32(major)
		}
	}
	return out
}

// readSmall reads a file of procfs, where the size of a file is unknown.
func readSmall(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	return io.ReadAll(io.LimitReader(f, maxProcFile))
}
