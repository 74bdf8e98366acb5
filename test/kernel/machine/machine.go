package machine

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/accelmux/accelmux/test/kernel/wire"
	"github.com/accelmux/accelmux/test/patience"
)

// Environment names the directory that kernel.sh has made: a link "image" to what image.sh made, and the root file
// system with accelmux, "disk".
const Environment = "ACCELMUX_KERNEL"

// Machine is a running machine.
type Machine struct {
	*Monitor
	dir   string
	cmd   *exec.Cmd
	ended chan struct{}
	guest *guest
}

// hardware is what every machine has. Devices that come and go are added by scenarios: at the root ports, which begin
// with "port", and at the two USB controllers.
//
// Root devices need bus=pcie.0, because the expander bridges make further root buses. QEMU has no hot-plug for graphics
// cards: a scenario that needs this one loads its driver.
var hardware = strings.Fields(`
	-machine q35,accel=tcg -cpu max -smp 2,sockets=2 -m 2048
	-object memory-backend-ram,id=mem0,size=1024M -numa node,nodeid=0,cpus=0,memdev=mem0
	-object memory-backend-ram,id=mem1,size=1024M -numa node,nodeid=1,cpus=1,memdev=mem1
	-nodefaults -no-user-config -display none
	-device intel-iommu,intremap=on,caching-mode=on
	-device pxb-pcie,id=pxb0,bus=pcie.0,bus_nr=32,numa_node=0
	-device pxb-pcie,id=pxb1,bus=pcie.0,bus_nr=64,numa_node=1
	-device pcie-root-port,id=port0,bus=pcie.0,chassis=1,slot=1
	-device pcie-root-port,id=port1,bus=pcie.0,chassis=2,slot=2
	-device pcie-root-port,id=port2,bus=pcie.0,chassis=3,slot=3
	-device pcie-root-port,id=numa0,bus=pxb0,chassis=4,slot=4
	-device pcie-root-port,id=numa1,bus=pxb1,chassis=5,slot=5
	-device qemu-xhci,id=usb0,bus=pcie.0,addr=0x10
	-device qemu-xhci,id=usb1,bus=pcie.0,addr=0x11
	-device virtio-serial-pci,id=serial,bus=pcie.0
	-device virtio-blk-pci,bus=pcie.0,drive=disk
	-device virtio-gpu-pci,bus=pcie.0`)

// kernelOptions are for the IOMMU, and for a quick boot: TCG is slow with what the kernel does against a processor's
// faults, with lines on a serial port and with security modules that Debian's kernel has beside Landlock.
const kernelOptions = "console=ttyS0 rw panic=-1 intel_iommu=on iommu=nopt net.ifnames=0 mitigations=off lsm=landlock " +
	"modprobe.blacklist=virtio_gpu audit=0 loglevel=5 systemd.show_status=no systemd.log_target=console systemd.log_level=warning systemd.firstboot=no"

// Start boots a machine, and returns when it answers. Its files are in dir. If a machine that was kept runs there, it is
// that one.
func Start(ctx context.Context, dir string, keep bool) (_ *Machine, err error) {
	m := &Machine{dir: dir, ended: make(chan struct{})}
	if conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "qmp")); err == nil {
		return m, m.connect(conn)
	}
	if err := m.boot(ctx, keep); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, m.Console())
			m.Stop()
		}
	}()
	conn, err := m.dial("qmp")
	if err != nil {
		return nil, err
	}
	return m, m.connect(conn)
}

// connect connects to the monitor and the guest.
func (m *Machine) connect(monitor net.Conn) (err error) {
	if m.Monitor, err = newMonitor(monitor); err != nil {
		return err
	}
	m.guest = &guest{machine: m}
	return m.guest.connect("")
}

// boot starts QEMU. Unless it is kept, it ends with the tests, however these end.
func (m *Machine) boot(ctx context.Context, keep bool) error {
	made, dir := os.Getenv(Environment), m.dir
	if made == "" {
		return fmt.Errorf("%s is not set: use `make test-kernel` or `test/kernel/kernel.sh test -run NAME`", Environment)
	}
	host := filepath.Join(made, "image/host")
	libraries := filepath.Join(host, "usr/lib/x86_64-linux-gnu")
	args := append([]string{
		"--library-path", libraries, filepath.Join(host, "usr/bin/qemu-system-x86_64"),
		"-L", filepath.Join(host, "usr/share/qemu"), "-L", filepath.Join(host, "usr/share/seabios"),
		"-L", filepath.Join(host, "usr/lib/ipxe/qemu"),
		"-kernel", filepath.Join(made, "image/kernel"), "-initrd", filepath.Join(made, "image/initramfs"),
		"-append", kernelOptions,
		"-serial", "file:" + filepath.Join(dir, "console"),
		// What the guest writes outlives its reboots, and ends with the process.
		"-drive", "if=none,id=disk,format=raw,snapshot=on,file=" + filepath.Join(made, "disk"),
		"-chardev", "socket,id=guest,server=on,wait=off,path=" + filepath.Join(dir, "guest"),
		"-pidfile", filepath.Join(dir, "pid"),
		"-qmp", "unix:" + filepath.Join(dir, "qmp") + ",server=on,wait=off",
	}, hardware...)
	args = append(args, "-device", "virtserialport,bus=serial.0,chardev=guest,name="+wire.Port)
	log, err := os.Create(filepath.Join(dir, "qemu.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	m.cmd = exec.CommandContext(ctx, filepath.Join(host, "usr/lib64/ld-linux-x86-64.so.2"), args...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.Env = append(os.Environ(), "TMPDIR="+dir, "QEMU_MODULE_DIR="+filepath.Join(libraries, "qemu"))
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: keep}
	if !keep {
		m.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := m.cmd.Start(); err != nil {
		return fmt.Errorf("start QEMU: %w", err)
	}
	go func() {
		_ = m.cmd.Wait() // what QEMU printed is shown with the error that follows
		close(m.ended)
	}()
	return nil
}

// dial connects to one of QEMU's sockets, which may not be there yet.
func (m *Machine) dial(name string) (conn net.Conn, err error) {
	if !patience.Within(patience.Long, func() bool {
		conn, err = (&net.Dialer{}).DialContext(context.Background(), "unix", filepath.Join(m.dir, name))
		return err == nil || m.over()
	}) || err != nil {
		return nil, fmt.Errorf("connect to QEMU's %s: %w", name, err)
	}
	return conn, nil
}

func (m *Machine) over() bool {
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}

// Console returns the end of what the kernel and QEMU printed.
func (m *Machine) Console() string {
	var all strings.Builder
	for _, name := range []string{"qemu.log", "console"} {
		text, err := os.ReadFile(filepath.Join(m.dir, name))
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&all, "%s:\n%s\n", name, text[max(0, len(text)-4000):])
	}
	return all.String()
}

// Reset is a machine's button: no program is asked, and what was not written to the disk is lost. It returns when
// the machine answers again, in the life that follows.
func (m *Machine) Reset(tb testing.TB) {
	tb.Helper()
	m.Run(tb, "sync")
	before := m.guest.boot
	if _, err := m.Command("system_reset", nil); err != nil {
		tb.Fatal(err)
	}
	if err := m.guest.connect(before); err != nil {
		tb.Fatalf("the machine does not come back: %v\n%s", err, m.Console())
	}
}

// Stop ends the machine.
func (m *Machine) Stop() {
	if _, err := m.Command("quit", nil); err != nil && m.cmd != nil {
		_ = m.cmd.Process.Kill() // it has ended, or does now
	}
	if m.cmd != nil {
		<-m.ended
	}
}
