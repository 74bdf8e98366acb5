package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// withWatch adds -w, which repeats what a command prints.
func withWatch(command *cobra.Command) *cobra.Command {
	watch := command.Flags().BoolP("watch", "w", false, "repeat until Ctrl-C")
	every := command.Flags().Duration("every", 2*time.Second, "interval of --watch, at least 1s")
	show := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !*watch:
			return show(cmd, args)
		case *every < time.Second:
			return errors.New("--every must be at least 1s")
		}
		return repeat(cmd, *every, func() error { return show(cmd, args) })
	}
	return command
}

// repeat prints the output of show at each interval; on a terminal it replaces the one before.
// The end of the command's context is no error. After a first success, errors are printed and
// show is called again: the agent may be restarting.
func repeat(cmd *cobra.Command, every time.Duration, show func() error) error {
	out := cmd.OutOrStdout()
	separator, clear := "\n", ""
	if isTerminal(out) {
		separator, clear = "", "\x1b[H\x1b[2J"
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for first := true; ; first = false {
		var text bytes.Buffer
		text.WriteString(clear)
		if !first {
			text.WriteString(separator)
		}
		cmd.SetOut(&text)
		err := show()
		cmd.SetOut(out)
		switch {
		case cmd.Context().Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil:
			fmt.Fprintln(&text, err)
		}
		if _, err := out.Write(text.Bytes()); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-cmd.Context().Done():
			return nil
		}
	}
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
