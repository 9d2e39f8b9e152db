// Command network-from-the-notes is the controller of Networks of study notes on custom controllers, with the calls to
// Neutron that they leave out. It has faults on purpose: see docs/learn/7-fix-me.md. Run it against `make run`
// only.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"cloudteam.ztgame.com/network-controller/pkg/client/clientset/versioned"
	informers "cloudteam.ztgame.com/network-controller/pkg/client/informers/externalversions"
)

func main() {
	masterURL := flag.String("master", "", "address of the API server, in place of the kubeconfig's")
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "path of the kubeconfig")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *masterURL, *kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, "network-from-the-notes:", err)
		os.Exit(1)
	}
}

// run has the three steps of each main: make the clients, make the controller with its informer, run both.
func run(ctx context.Context, masterURL, kubeconfig string) error {
	cfg, err := clientcmd.BuildConfigFromFlags(masterURL, kubeconfig)
	if err != nil {
		return err
	}
	kubeClient, networkClient := kubernetes.NewForConfigOrDie(cfg), versioned.NewForConfigOrDie(cfg)
	neutron, err := newNeutron(ctx, http.Client{Timeout: 30 * time.Second})
	if err != nil {
		return err
	}
	// Networks without this label belong to the shipped controller.
	ours := func(o *metav1.ListOptions) { o.LabelSelector = "controller=notes" }
	factory := informers.NewSharedInformerFactoryWithOptions(
		networkClient, 30*time.Second, informers.WithTweakListOptions(ours))
	// This asks for the informer. Start starts only informers that somebody asked for before.
	controller, err := NewController(neutron, factory.Cloudteam().V1().Networks(), newRecorder(kubeClient))
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	return controller.Run(ctx, 2)
}
