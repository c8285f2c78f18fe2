"""A decoder with rotary embedding, memory and flash-free attention, trained and sampled.
pip: x-transformers
tolerance: 1e-3"""
import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

torch.manual_seed(0)
model = AutoregressiveWrapper(TransformerWrapper(num_tokens=50, max_seq_len=32, attn_layers=Decoder(
    dim=32, depth=2, heads=4, rotary_pos_emb=True, ff_glu=True, use_rmsnorm=True)))
tokens, optimizer = torch.randint(0, 50, (4, 17)), torch.optim.AdamW(model.parameters(), 1e-3)
for _ in range(3):
    loss = model(tokens)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print('loss', loss.item())
print('written', model.generate(tokens[:1, :4], 8, temperature=0.).tolist())
