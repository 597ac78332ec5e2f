"""`torch.compile(model, backend="anydml")` beside PyTorch's own ways, on networks of torchvision and transformers."""
