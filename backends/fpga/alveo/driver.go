package alveo

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sysfs"
	"github.com/accelmux/accelmux/backends/tool"
)

// Settings define how cards are programmed and reset. The zero value is for a node where XRT is
// installed beside this process.
type Settings struct {
	// Root is this process's path of the root of the node, or of the container, with XRT's
	// tools; "" is "/". The tool needs /dev, /sys and /proc there.
	Root string `json:"root"`
	// Tool is the path of xbutil or xrt-smi in Root; by default it is searched for where
	// XRT's packages put it.
	Tool string `json:"tool"`
	// Unit is what containers get: an FPGA, or a board with all its FPGAs.
	Unit Unit `json:"unit"`
}

// Unit is what a container gets of a board with several FPGAs.
type Unit string

const (
	// UnitFPGA lists each FPGA; so does "".
	UnitFPGA Unit = "fpga"
	// UnitBoard lists all FPGAs of a board as one device; see [Boards].
	UnitBoard Unit = "board"
)

// tools are the paths in XRT's packages: xrt-smi is the name since 2024.2, and both are scripts
// that set up the environment of the actual tool.
var tools = []string{"/opt/xilinx/xrt/bin/xrt-smi", "/opt/xilinx/xrt/bin/xbutil", "/usr/bin/xrt-smi", "/usr/bin/xbutil"}

// Driver is XRT's. It remembers only the place of each card: cards do not report their serial
// number while they are reset, and must not change their ID meanwhile.
type Driver struct {
	host     sdk.HostPaths
	settings Settings
	// write writes to a file of sysfs, interval is how often it is checked whether a card is
	// back, and verified how long it may take to report what was loaded, after the tool has
	// ended; tests change them.
	write              func(path, text string) error
	interval, verified time.Duration

	mu sync.Mutex
	// places are known cards, by the address that identifies them; shared are serial numbers
	// that two cards have had at once.
	places map[pci.Address]place
	shared map[string]bool
	// begun has the cards, by ID, that a reset of this process shuts down or has left so, and
	// whether they were read as shut down.
	begun map[string]bool
}

// place is the card that was last seen at an address.
type place struct {
	// vendor and device are its PCI IDs, which show that another card is at its place even if
	// that does not report its serial number.
	vendor, device uint16
	serial, id     string
	// fpgas is the greatest number of FPGAs that the board was known to have.
	fpgas int
}

var _ driver.Driver = (*Driver)(nil)

// New returns the driver on a host, with settings that were checked.
func New(host sdk.HostPaths, s Settings) *Driver {
	return &Driver{
		host: host, settings: s, write: sysfs.Write, interval: interval, verified: verified,
		places: map[pci.Address]place{}, shared: map[string]bool{}, begun: map[string]bool{},
	}
}

// Name returns that of XRT.
func (d *Driver) Name() string { return "xrt" }

// tool returns XRT's tool.
func (d *Driver) tool() tool.Tool {
	paths := tools
	if d.settings.Tool != "" {
		paths = []string{d.settings.Tool}
	}
	return tool.Tool{Name: filepath.Base(paths[0]), Root: d.settings.Root, Paths: paths, Setting: "xrt.tool"}
}

// wait returns when done returns true, or with the error of ctx.
func (d *Driver) wait(ctx context.Context, done func() bool) error {
	t := time.NewTicker(d.interval)
	defer t.Stop()
	for !done() {
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

const (
	// interval is short against resets, which take seconds.
	interval = 200 * time.Millisecond
	// verified is long against the driver, which reports at once what was loaded.
	verified = 5 * time.Second
)
