package agent

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

// An agent whose log nobody reads any more, such as one on a pipe to a program that has
// ended, goes on serving: kubelet hears of a fault and its end, without a dip of the rest.
func TestLogUnread(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(twoBackends)
	command := n.command("run")
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = writer, writer
	p := n.newProgram("run", command)
	p.serve()
	_ = writer.Close()
	for lines := bufio.NewScanner(reader); lines.Scan() && !strings.Contains(lines.Text(), "accelmux starts"); {
	}
	_ = reader.Close()

	n.wantCounts(gpu, 4, 4)
	n.wantCounts(fpga, 2, 2)
	n.mark(gpu)
	n.mark(fpga)
	n.scenario("devices: {mock-0: {fault: {code: x, recovery: self}}}")
	n.wantCounts(gpu, 4, 3)
	n.scenario("")
	n.wantCounts(gpu, 4, 4)
	n.wantNoDip(gpu, 3)
	n.wantNoDip(fpga, 2)
	if p.over() {
		t.Errorf("the agent has ended: %v", p.err)
	}
}
