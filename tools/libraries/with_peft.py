"""LoRA and IA3 on a random GPT-2: train, merge, save.
pip: peft transformers"""
import tempfile

import peft
import torch
import transformers

for kind in 'LoRA', 'IA3':
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64))
    config = (peft.LoraConfig(r=4, target_modules=['c_attn'], lora_dropout=0.1, fan_in_fan_out=True) if kind == 'LoRA'
              else peft.IA3Config(target_modules=['c_attn', 'mlp.c_proj'], feedforward_modules=['mlp.c_proj'], fan_in_fan_out=True))
    model = peft.get_peft_model(model, config)
    print(kind, model.get_nb_trainable_parameters())
    tokens, optimizer = torch.randint(0, 99, (4, 16)), torch.optim.AdamW(model.parameters(), 1e-2)
    for _ in range(3):
        loss = model(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(kind, loss.item())
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
    merged = model.merge_and_unload().eval()
    print(kind, merged(input_ids=tokens, labels=tokens).loss.item())
