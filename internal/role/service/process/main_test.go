package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/internal/child"
	"go.uber.org/goleak"
)

// This test's binary is also the programs that the tests run: its first argument says which.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if program := programs[os.Args[1]]; program != nil {
			program(os.Args[2:])
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

var programs = map[string]func(args []string){
	// Runs until it is killed, with a process of its group that does the same. It writes both
	// numbers to a file.
	"group": func(args []string) {
		inner := exec.Command(os.Args[0], "forever")
		if err := inner.Start(); err != nil {
			panic(err)
		}
		writeFile(args[0], fmt.Sprint(os.Getpid(), " ", inner.Process.Pid))
		forever()
	},
	"forever": func([]string) { forever() },
	// Ignores SIGTERM.
	"stubborn": func(args []string) {
		signal.Ignore(syscall.SIGTERM)
		writeFile(args[0], fmt.Sprint(os.Getpid()))
		forever()
	},
	// Exits with a code when it gets SIGTERM, after a process of its group ended.
	"graceful": func(args []string) {
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		writeFile(args[0], fmt.Sprint(os.Getpid()))
		<-term
		fmt.Println("stopping")
	},
	// The leader ends at SIGTERM at once, and the process of its group later, gracefully.
	"slowgroup": func(args []string) {
		inner := exec.Command(os.Args[0], "slow", args[0])
		if err := inner.Start(); err != nil {
			panic(err)
		}
		forever()
	},
	"slow": func(args []string) {
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		writeFile(args[0], fmt.Sprint(os.Getpid()))
		<-term
		wait := exec.Command("/bin/sleep", "0.2")
		wait.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		_ = wait.Run() // SIGTERM was sent once only
		writeFile(args[0]+".stopped", "yes")
	},
	// Leaves a process behind that keeps its output open, in a session of its own.
	"daemon": func(args []string) {
		inner := exec.Command(os.Args[0], "forever")
		inner.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		inner.Stdout, inner.Stderr = os.Stdout, os.Stderr
		if err := inner.Start(); err != nil {
			panic(err)
		}
		writeFile(args[0], fmt.Sprint(inner.Process.Pid))
		fmt.Println("left")
	},
	"lines": func([]string) {
		fmt.Println("short")
		fmt.Println(strings.Repeat("x", 100_000))
		fmt.Fprintln(os.Stderr, "after")
		fmt.Print("no end")
	},
	"environ": func([]string) {
		for _, name := range []string{"OURS", "LOCKSTEP_TOKEN", "NOTIFY_SOCKET"} {
			fmt.Printf("%s=%s\n", name, os.Getenv(name))
		}
		dir, _ := os.Getwd()
		fmt.Println(filepath.Base(dir))
	},
	// A sidecar: it runs "group" until it is killed.
	"sidecar": func(args []string) {
		s := child.NewStarter()
		go func() { _ = s.Run(context.Background()) }()
		New(Config{Process: Process{Command: []string{os.Args[0], "group", args[0]}}, Starter: s}).Run(context.Background(), func() {})
	},
}

func forever() { <-time.After(time.Hour) }

// writeFile writes a file so that who reads it sees all of it.
func writeFile(name, text string) {
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		panic(err)
	}
}
