package foo

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cloudteam.ztgame.com/network-controller/pkg/apis/samplecontroller/v1alpha1"
)

// desired is the Deployment to create for a Foo. It is the same as in Kubernetes' sample-controller. For an existing
// Deployment, only the number of replicas is compared. Others may change everything else.
func desired(foo *v1alpha1.Foo) *appsv1.Deployment {
	labels := map[string]string{"app": "nginx", "controller": foo.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: foo.Namespace,
			Name:      foo.Spec.DeploymentName,
			Labels:    labels,
			// Garbage collection deletes the Deployment after the Foo, or before it in a foreground deletion.
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, kind)},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: foo.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}},
			},
		},
	}
}

// replicasOf is the number of replicas that a Deployment declares.
func replicasOf(deployment *appsv1.Deployment) int32 {
	if deployment.Spec.Replicas == nil {
		return 1 // the API server's default
	}
	return *deployment.Spec.Replicas
}
